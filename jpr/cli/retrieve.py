"""`jpr retrieve`: candidates for many questions."""

from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import naming
from jpr.cli.processes import Processes, Scheduler, Workers
from jpr.cli.search import Distinct, EncoderFolder, IndexFolder, Kind, Where, open_index
from jpr.errors import ConfigError, DataError

NAME = "retrieve"
HELP = """Find candidates for every question of a file. They are written as a run (ctxs).

A run that was interrupted goes on where it was when the same command is given again.
With --workers or --scheduler, Dask shares the work out, and the result is the same; workers must
find the index under the same path.

Example: jpr retrieve wiki --questions dev.jsonl --out hybrid.jsonl -k 100

Example: jpr retrieve wiki --questions dev.jsonl --out hybrid.jsonl --scheduler tcp://node1:8786
"""


def run(
    index: IndexFolder,
    questions: Annotated[Path, typer.Option("--questions", "-q", help="File of questions.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of rankings to write.")],
    k: Annotated[int, typer.Option("-k", help="How many passages for each.")] = 100,
    retriever: Kind = None,
    where: Where = None,
    encoder: EncoderFolder = None,
    distinct: Distinct = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Retrieve question by question."""
    from jpr.formats.questions import check_lengths, load_questions
    from jpr.io.cluster import StageSpec
    from jpr.retrieve.batch import retrieve_to_file

    processes = Processes(workers, scheduler)
    if out.resolve() == questions.resolve():
        raise ConfigError(f"{out}: holds the questions; name another file to write")
    asked = load_questions(questions)
    empty = next((question.id for question in asked if not question.text.strip()), None)
    if empty is not None:
        raise DataError(f"{questions}: question {empty!r} has no text to search for")
    with naming(questions):
        check_lengths(asked)
    opened, key = open_index(index, k, retriever, where, encoder, distinct)
    own = encoder and encoder.resolve()
    there = (index.resolve(), k, retriever, tuple(where or ()), own, distinct, 1)
    with (
        processes.spread(StageSpec(open_index, there, key, str(index))) as spread,
        screen.progress("retrieving", len(asked)) as progress,
    ):
        retrieve_to_file(opened, asked, out, k, key=key, progress=progress, spread=spread)
    screen.note(f"{len(asked):,} rankings are in {out}")
