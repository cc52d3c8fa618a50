"""Joint models into folders that run on a CPU without torch; needs torch and onnx.

FOLDER/joint.json     as in the folder it was made from, with the precision and their name, and the
                      hashes of the other files
FOLDER/encoder.onnx   reads candidates
FOLDER/step.onnx      says what comes next
FOLDER/tokenizer.json
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from jpr.encode.encoder_folder import weight_files, weights_digest
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, MissingExtraError
from jpr.io.checksums import known_sums, with_sums
from jpr.io.json_files import write_json
from jpr.models.joint_config import ENCODER_FILE, JOINT_JSON, STEP_FILE, read_joint_json
from jpr.rerank.joint import ask
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.types import Ranking

T = TypeVar("T")
_TEXTS = 128
"""Texts whose tokens show how to scale: more were hardly better, and take longer."""
_PER_QUESTION = 4


def export_joint(
    source: Path, target: Path, sample: Sequence[Ranking] = (), prior: float | None = None
) -> None:
    """Write a folder of weights for torch as one for ONNX Runtime; `target` must be there.

    With a sample of rankings, such as are to be reranked, the model is in 8 bits, which those show
    how to scale; without, in 32. `prior` says how much the first stage's rank is to count.
    """
    settings = read_prompt_settings(source)
    try:
        from jpr.models.heads import IndexHead, PointerHead
        from jpr.models.joint_checkpoint import read_joint
        from jpr.models.onnx_export import joint_to_onnx, joint_to_onnx_int8
    except ImportError as error:
        raise MissingExtraError("exporting a joint model", "train") from error
    model, _ = read_joint(source)
    if prior is not None:
        if not isinstance(model.head, PointerHead):
            raise ConfigError(f"{source}: says numbers; a prior is for a model that points")
        model.head.prior.data.fill_(prior)
    weights = weights_digest(weight_files(source), known_sums(source / JOINT_JSON))
    weights += "" if prior is None else f", prior {prior:g}"
    tokenizer = read_tokenizer(source / "tokenizer.json")
    if sample:
        numbers = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0
        rows = _rows(Prompts(tokenizer, settings), numbers, sample)
        made = joint_to_onnx_int8(model, weights, rows)
    else:
        made = joint_to_onnx(model, weights)
    precision = "int8" if sample else "fp32"
    about = {**read_joint_json(source), "precision": precision, "weights": weights}
    (target / ENCODER_FILE).write_bytes(made.encoder)
    (target / STEP_FILE).write_bytes(made.step)
    (target / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    write_json(
        target / JOINT_JSON, with_sums(about, target, (ENCODER_FILE, STEP_FILE, "tokenizer.json"))
    )


def _rows(prompts: Prompts, numbers: int, rankings: Sequence[Ranking]) -> list[list[int]]:
    """Return the tokens of some candidates from all over the rankings."""
    found: list[list[int]] = []
    for ranking in spread([r for r in rankings if r.hits], _TEXTS // _PER_QUESTION):
        some = Ranking(ranking.question, tuple(spread(ranking.hits, _PER_QUESTION)))
        found += [one.ids for one in ask(prompts, numbers, some).prompted]
    return found


def spread(records: Sequence[T], count: int) -> list[T]:
    """Return at most so many records, as far apart as they can be.

    >>> spread(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    count = min(count, len(records))
    return [records[i * len(records) // count] for i in range(count)]
