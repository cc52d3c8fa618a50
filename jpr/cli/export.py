"""`jpr export`: a model for the CPU, without torch."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import naming
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.types import Ranking

NAME = "export"
HELP = """Export a model to ONNX, to run on a CPU without torch. It is a joint model, or an encoder.

In 8 bits it is about a quarter as large and faster. The sample is any run (`jpr formats`) with
questions and texts like those that the model is for: its tokens show how to scale.

Example: jpr export joint --out joint-cpu --sample bm25.jsonl

Example: jpr export joint --out joint-onnx --precision fp32
"""
PRECISIONS = ("int8", "fp32")
_TEXTS = 256
"""Questions, and passages, of a sample for an encoder."""


def run(
    model: Annotated[Path, typer.Argument(help="Folder of a joint model or of an encoder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; a new one.")],
    sample: Annotated[
        Path | None, typer.Option(metavar="RUN", help="int8: rankings with texts.")
    ] = None,
    precision: Annotated[str, typer.Option(help=f"One of {', '.join(PRECISIONS)}.")] = "int8",
    prior: Annotated[
        float | None,
        typer.Option(
            help="A joint model that points: how much −log of the first stage's rank is to add to "
            "log P; by default what was learnt. Tune it on development questions."
        ),
    ] = None,
) -> None:
    """Read, export, publish."""
    from jpr.io.atomic import publish_folder
    from jpr.rerank.save import export_joint

    _check(model, sample, precision)
    is_joint = (model / "joint.json").exists()
    if prior is not None and not (is_joint and isfinite(prior)):
        raise ConfigError(f"--prior {prior}; give a number, and a joint model")
    rankings = _read(sample) if sample else []
    with publish_folder(out) as folder:
        if is_joint:
            export_joint(model, folder, rankings, prior)
        else:
            _export_encoder(model, folder, rankings)
    files = [file for file in out.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    screen.note(f"the model is in {out}, in {precision}: {size / 1e6:.1f} MB")


def _check(model: Path, sample: Path | None, precision: str) -> None:
    if precision not in PRECISIONS:
        raise ConfigError(f"--precision {precision}; choose one of {', '.join(PRECISIONS)}")
    if precision == "int8" and sample is None:
        raise ConfigError("int8 needs texts to scale by: --sample RUN; or --precision fp32")
    if precision == "fp32" and sample is not None:
        raise ConfigError("--sample is for int8; leave it out")
    if not model.is_dir():
        raise ConfigError(f"{model}: is no folder; a model is a folder with weights")


def _read(sample: Path) -> "list[Ranking]":
    """Read the sample and refuse what has no texts."""
    from jpr.formats.runs import load_rankings

    with naming(sample):
        rankings = [ranking for ranking in load_rankings(sample) if ranking.hits]
        if not rankings:
            raise DataError("holds no ranking with passages; give one that does")
        for ranking in rankings:
            bare = any(hit.passage.is_bare for hit in ranking.hits)
            if bare or not ranking.question.text.strip():
                raise DataError(
                    f"question {ranking.question.id!r} or its passages have no texts; "
                    "fill them in with jpr convert --questions --corpus"
                )
    return rankings


def _export_encoder(model: Path, folder: Path, rankings: "list[Ranking]") -> None:
    from jpr.encode.export_encoder import export_encoder
    from jpr.rerank.save import spread

    chosen = spread(rankings, _TEXTS)
    passages = spread([hit.passage for ranking in rankings for hit in ranking.hits], _TEXTS)
    export_encoder(model, folder, passages, [ranking.question.text for ranking in chosen])
