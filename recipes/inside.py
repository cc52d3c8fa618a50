"""The joint model that comes with the package, whose weights are ONNX in 8 bits, for torch.

    python recipes/inside.py models/inside

So recipes that run where only torch is can begin with it (`recipes/reader_models.py`).
"""

import argparse
import shutil
from dataclasses import asdict
from pathlib import Path

from jpr.models.joint_folder import write_joint
from jpr.models.onnx_weights import joint_from_onnx
from jpr.rerank.joint import DEFAULT
from jpr.rerank.prompt import read_prompt_settings


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    write_joint(folder, joint_from_onnx(DEFAULT).half(), asdict(read_prompt_settings(DEFAULT)))
    shutil.copy(DEFAULT / "tokenizer.json", folder)


if __name__ == "__main__":
    main()
