"""Export joint models to folders that run on a CPU without torch; needs torch and onnx.

FOLDER/joint.json     the source's, with precision, name of the weights, and hashes of the files
FOLDER/encoder.onnx   encodes candidates
FOLDER/step.onnx      scores successors of prefixes
FOLDER/spans.npz      its span head, if it has one
FOLDER/tokenizer.json
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from jpr.encode.encoder_folder import weight_files, weights_digest
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, needs_extra
from jpr.io.checksums import with_sums
from jpr.io.json_files import write_json
from jpr.models.joint_config import (
    ENCODER_FILE,
    JOINT_JSON,
    SPANS_FILE,
    STEP_FILE,
    read_joint_json,
)
from jpr.rerank.joint import model_input
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.types import Ranking

T = TypeVar("T")
_TEXTS = 128  # texts for the scales of 8-bit weights: more were hardly better, and take longer
_PER_QUESTION = 4


def export_joint(
    source: Path, target: Path, sample: Sequence[Ranking] = (), prior: float | None = None
) -> None:
    """Write a folder of weights for torch as one for ONNX Runtime; `target` must exist.

    With a sample of typical rankings, which determines the scales, the model is in 8 bits;
    without, in 32. `prior` replaces the weight of the first-stage rank.
    """
    settings = read_prompt_settings(source)
    with needs_extra("exporting a joint model", "train"):
        from jpr.models.heads import IndexHead, PointerHead
        from jpr.models.joint_checkpoint import read_joint
        from jpr.models.onnx_export import joint_to_onnx, span_weights
    model = read_joint(source)
    if prior is not None:
        if not isinstance(model.head, PointerHead):
            raise ConfigError(f"{source}: has an index head; a prior is for a pointer head")
        model.head.prior.data.fill_(prior)
    about, sums = read_joint_json(source)
    weights = weights_digest(weight_files(source), sums)
    weights += "" if prior is None else f", prior {prior:g}"
    tokenizer = read_tokenizer(source)
    numbers = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0
    rows = _rows(Prompts(tokenizer, settings), numbers, sample) if sample else None
    encoder, step = joint_to_onnx(model, weights, rows)
    about |= {"precision": "int8" if sample else "fp32", "weights": weights}
    (target / ENCODER_FILE).write_bytes(encoder)
    (target / STEP_FILE).write_bytes(step)
    if model.answers is not None:
        span_weights(model.answers).write(target / SPANS_FILE)
    (target / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    files = (ENCODER_FILE, STEP_FILE, SPANS_FILE, "tokenizer.json")
    write_json(target / JOINT_JSON, with_sums(about, target, files))


def _rows(prompts: Prompts, numbers: int, rankings: Sequence[Ranking]) -> list[list[int]]:
    """Return the tokens of some candidates, evenly spread over the rankings."""
    found: list[list[int]] = []
    for ranking in spread([r for r in rankings if r.hits], _TEXTS // _PER_QUESTION):
        some = Ranking(ranking.question, tuple(spread(ranking.hits, _PER_QUESTION)))
        found += [one.ids for one in model_input(prompts, numbers, some)]
    return found


def spread(records: Sequence[T], count: int) -> list[T]:
    """Return at most `count` records, evenly spread.

    >>> spread(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    count = min(count, len(records))
    return [records[i * len(records) // count] for i in range(count)]
