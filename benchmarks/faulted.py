"""`jpr` with tiny random models in place of the bundled ones, for benchmarks/faults.py to kill.

python benchmarks/faulted.py MODELS COMMAND …
"""

import sys
from pathlib import Path


def main() -> None:
    """Run the command line; its default models are in the folder MODELS."""
    import jpr.encode.encoder_folder
    import jpr.rerank.joint

    models = Path(sys.argv[1])
    jpr.encode.encoder_folder.BUNDLED_ENCODER = models / "encoder"
    jpr.rerank.joint.BUNDLED_MODEL = models / "joint"
    from jpr.cli import main as jpr_main

    sys.argv = ["jpr", *sys.argv[2:]]
    jpr_main()


def write_models(folder: Path) -> None:
    """Write the models for `main`, and an encoder and a pack to train with."""
    from jpr.encode.encoder_folder import export_encoder
    from jpr.rerank.save import export_joint
    from tests.encode.tiny import write_encoder
    from tests.rerank.tiny import write_pointer
    from tests.train import tiny

    export_encoder(write_encoder(folder / "torch-encoder"), folder / "encoder")
    (folder / "joint").mkdir()
    export_joint(write_pointer(folder / "torch-joint", answers=True), folder / "joint")
    tiny.write_encoder(folder / "to-train")
    tiny.write_invented(folder / "pack", n=10)


if __name__ == "__main__":
    main()
