"""Remove every second layer of a joint model's encoder, to start a smaller one from.

    python -m recipes.half_layers models/inside models/half

`models/inside` is the bundled model in torch's format:

    python -c 'from pathlib import Path; from jpr.models.onnx_weights import write_for_torch; \\
        from jpr.rerank.joint import BUNDLED_MODEL; \\
        write_for_torch(BUNDLED_MODEL, Path("models/bundled"))'
"""

from dataclasses import asdict, replace

from torch import nn

from jpr.io.atomic import copy_file
from jpr.models.bert import Bert
from jpr.models.joint_checkpoint import read_joint, write_joint
from jpr.rerank.prompt import read_prompt_settings
from recipes.command_line import parser_of


def main() -> None:
    """Read, leave out, write."""
    parser = parser_of(__doc__, "model", "out")
    options = parser.parse_args()
    model = read_joint(options.model)
    encoder = model.encoder
    if not isinstance(encoder, Bert):
        raise SystemExit(f"{options.model}: its encoder is a T5; give one over a BERT")
    encoder.blocks = nn.ModuleList(list(encoder.blocks)[1::2])
    encoder.config = replace(encoder.config, num_hidden_layers=len(encoder.blocks))
    options.out.mkdir(parents=True, exist_ok=True)
    copy_file(options.model / "tokenizer.json", options.out / "tokenizer.json")
    write_joint(options.out, model, asdict(read_prompt_settings(options.model)))
    print(options.out, len(encoder.blocks), "layers")


if __name__ == "__main__":
    main()
