"""Leaves every second layer of a joint model's encoder out, to begin a smaller one with.

    python -m recipes.half_layers models/inside models/half

`models/inside` is the model of the package as torch reads it:

    python -c 'from pathlib import Path; from jpr.models.onnx_weights import write_for_torch; \\
        from jpr.rerank.joint import BUNDLED_MODEL; \\
        write_for_torch(BUNDLED_MODEL, Path("models/bundled"))'
"""

import argparse
from dataclasses import replace
from pathlib import Path

from torch import nn

from jpr.io.atomic import copy_file
from jpr.models.bert import Bert
from jpr.models.joint_checkpoint import read_joint, write_joint


def main() -> None:
    """Read, leave out, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("model", "out"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    model, prompt = read_joint(options.model)
    encoder = model.encoder
    if not isinstance(encoder, Bert):
        raise SystemExit(f"{options.model}: its encoder is a T5; give one over a BERT")
    encoder.blocks = nn.ModuleList(list(encoder.blocks)[1::2])
    encoder.config = replace(encoder.config, num_hidden_layers=len(encoder.blocks))
    options.out.mkdir(parents=True, exist_ok=True)
    copy_file(options.model / "tokenizer.json", options.out / "tokenizer.json")
    write_joint(options.out, model, prompt)
    print(options.out, len(encoder.blocks), "layers")


if __name__ == "__main__":
    main()
