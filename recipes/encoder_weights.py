"""Make the folders of weights that `recipes/encoder.py` starts from.

Needs: the folders of all-MiniLM-L6-v2 and all-mpnet-base-v2, and the 8-bit encoder of 0.1.0
(`git show v0.1.0:jpr/assets/encoder/…`, or the installed one before it is replaced).

    python -m recipes.encoder_weights MINILM MPNET ENCODER WEIGHTS

Writes `minilm`, `mpnet` (its words in the order of BERT's vocabulary, so that one tokenizer serves
all) and `bundled` (the 8-bit weights as numbers of 16 bits) to WEIGHTS, each with a tokenizer.
"""

import shutil
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from jpr.models.bert import to_hugging_face
from jpr.models.checkpoint import read_checkpoint, write_checkpoint
from jpr.models.config import BertConfig
from recipes.command_line import parser_of

_BERT_WORDS = 30_522
_MPNET_SHIFT = 4  # mpnet's vocabulary is BERT's after four special tokens
_SPECIAL = {101: 0, 102: 2}  # [CLS] and [SEP] are <s> and </s>


def in_berts_order(words: Tensor) -> Tensor:
    """Return the rows of mpnet's word embeddings in the order of BERT's vocabulary."""
    rows = torch.arange(_BERT_WORDS) + _MPNET_SHIFT
    for bert, mpnet in _SPECIAL.items():
        rows[bert] = mpnet
    return words[rows]


def from_eight_bits(path: Path, config: BertConfig) -> dict[str, Tensor]:
    """Return the weights of an exported encoder as `Bert` names them."""
    stored = {
        weight.name: torch.from_numpy(numpy_helper.to_array(weight).astype(np.float32))
        for weight in onnx.load(str(path)).graph.initializer
    }
    weights = {
        "words.weight": stored["words"] * stored["words.step"],
        "positions.weight": stored["positions"],  # the segment's embedding is in it
        "segments.weight": torch.zeros(config.type_vocab_size, config.hidden_size),
    }
    for name, codes in stored.items():
        matrix, _, kind = name.rpartition(".")
        if f"{matrix}.step" in stored and kind == "weight":
            smoothing = stored.get(f"{matrix}.smoothing", torch.ones(len(codes)))
            weights[name] = (smoothing[:, None] * codes * stored[f"{matrix}.step"]).T
        elif kind in ("weight", "bias"):
            weights[name] = codes
    return weights


def main() -> None:
    """Write the three folders."""
    parser = parser_of(__doc__, "minilm", "mpnet", "encoder", "weights")
    options = parser.parse_args()
    described, minilm = read_checkpoint(options.minilm)
    about, mpnet = read_checkpoint(options.mpnet)
    words = "embeddings.word_embeddings.weight"
    mpnet[words] = in_berts_order(mpnet[words])
    config = BertConfig.from_dict(described)
    bundled = from_eight_bits(options.encoder / "model.onnx", config)
    for name, settings, weights in (
        ("minilm", described, minilm),
        ("mpnet", {**about, "vocab_size": _BERT_WORDS}, mpnet),
        ("bundled", described, to_hugging_face(bundled, config)),
    ):
        kept = {key: weight for key, weight in weights.items() if weight.is_floating_point()}
        write_checkpoint(options.weights / name, settings, {k: w.half() for k, w in kept.items()})
        shutil.copy(options.encoder / "tokenizer.json", options.weights / name)


if __name__ == "__main__":
    main()
