"""`jpr group-answers`: regular expressions into distinct answers."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.cli.corpora import read_corpus
from jpr.cli.inputs import naming
from jpr.io.locks import cache_folder

NAME = "group-answers"
HELP = """Turn CuratedTREC's expressions into distinct answers. It is done as in the paper.

Every expression is run over every passage. A question is dropped if nothing matches or more than
100 distinct strings do; matches of up to five tokens are kept, and those that differ only by
spelling are one answer. What is known of each part of the corpus is kept, so that a run that was
interrupted goes on where it was.

Example: jpr group-answers CuratedTrec-train.tsv psgs_w100.tsv.gz --out trec-train.jsonl
"""


def run(
    questions: Annotated[Path, typer.Argument(help="Questions with regular expressions.")],
    passages: Annotated[Path, typer.Argument(help="The corpus to search.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of questions to write.")],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one per core.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing for a later run.")
    ] = False,
) -> None:
    """Search, group, write, and say what was dropped."""
    from jpr.formats.questions import load_questions, write_questions
    from jpr.formats.questions.trec_regex import group_answers
    from jpr.io.atomic import publish

    asked = load_questions(questions)
    with naming(questions), screen.progress("searching passages", None) as progress:
        grouped = group_answers(
            asked,
            read_corpus(passages),
            workers=workers or screen.workers(),
            cache=None if no_cache else cache_folder() / "expressions",
            progress=progress,
        )
    with publish(out) as stream:
        write_questions(grouped.questions, stream)
    screen.note(f"{len(grouped.questions)} of {len(asked)} questions have answers, in {out}")
    for reason, count in Counter(dropped.reason for dropped in grouped.dropped).most_common():
        screen.note(f"{count} dropped: {reason}")
