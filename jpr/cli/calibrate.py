"""`jpr calibrate`: when a joint model has chosen enough."""

from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import CorpusOption, QuestionsOption
from jpr.errors import ConfigError

NAME = "calibrate"
HELP = """Find when a joint model should stop choosing: for -k auto. Questions with answers tell it.

The threshold is noted in the model's folder: the one with the fewest passages that keeps the wanted
share of the answers found in the first K. Use development questions, never those you report on.

Example: jpr calibrate dev.jsonl --model joint --keep 0.95 -k 10
"""


def run(
    source: Annotated[Path, typer.Argument(metavar="RUN", help="File of rankings.")],
    model: Annotated[
        Path, typer.Option(help="Folder of a joint model; its joint.json is changed.")
    ],
    keep: Annotated[float, typer.Option(help="Share of the answers to keep.")] = 0.95,
    k: Annotated[int, typer.Option("-k", help="Passages at most.")] = 10,
    decode: Annotated[
        str | None, typer.Option(help="The decoder that will be used; the model's own by default.")
    ] = None,
    beta: Annotated[float | None, typer.Option(help="tree: the β that will be used.")] = None,
    questions: QuestionsOption = None,
    corpus: CorpusOption = None,
) -> None:
    """Decode without a threshold, look where the answers are, and note where to stop."""
    from jpr.cli.rerank import read_run
    from jpr.coverage import cover
    from jpr.rerank.joint import JointReranker
    from jpr.rerank.methods import METHODS, ORACLE
    from jpr.rerank.stop import Stop, calibrated, write_stop

    if k < 1:
        raise ConfigError(f"-k {k}: ask for at least one passage")
    reranker = JointReranker.load(model, decode, beta)
    rankings = read_run(source, corpus, questions, METHODS[ORACLE])
    trees, worths = [], []
    with screen.progress("decoding", len(rankings)) as progress:
        for choice in reranker.decode_many(rankings, k):
            trees.append(choice.decoded)
            worths.append(choice.worths)
            progress(1)
    threshold, kept, passages = calibrated(trees, worths, cover(rankings), keep)
    mine = reranker.decoding
    write_stop(model, Stop(threshold, k, mine.decoder, mine.beta, kept, passages, len(rankings)))
    screen.note(
        f"below {threshold:.4f} enough is chosen: {passages:.2f} passages a question, not {k}, "
        f"keep {100 * kept:.1f} % of the answers ({len(rankings):,} questions)"
    )
