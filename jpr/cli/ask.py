"""`jpr ask`: a question, and every answer that its passages give."""

import sys
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import DocsOption, IndexOption, refuse_both
from jpr.cli.rerank import DECODERS
from jpr.errors import ConfigError

NAME = "ask"
HELP = """Ask a question and get every answer with its passages. How these were chosen is told, too.

Without --docs or --index, the small encyclopedia that comes along is asked. A folder of documents
(.txt .md .html .pdf .docx .csv .jsonl) is indexed when it is first asked, into the cache folder,
and what changes later at the next question.

Example: jpr ask "who plays mark on roseanne"

Example: jpr ask "what are the deadlines" --docs contracts --explain

Example: jpr ask "who won the cup" --index wiki -k 10 --compare
"""
_TREES = DECODERS[:2]


def run(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    docs: DocsOption = None,
    index: IndexOption = None,
    k: Annotated[int, typer.Option("-k", help="How many passages.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each passage adds to those before it.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show the passages chosen one by one, too.")
    ] = False,
    decode: Annotated[
        str | None, typer.Option(help=f"{', '.join(DECODERS)}; by default the model's own.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="tree, sets: larger is wider; alone, it asks for a tree.")
    ] = None,
) -> None:
    """Ask and show."""
    _check(question, docs, index, k)
    _check_decoder(decode, beta)
    from jpr.asking import open_pipeline
    from jpr.reply import INDEPENDENT, open_question, reply_json

    with screen.warnings_as_notes():
        pipeline = open_pipeline(docs, index, k, device="cpu", watched=screen.progress)
    with screen.waiting("reading passages and choosing"):
        opened = open_question(pipeline, question)
        reply = opened.reply(beta=beta, decoder=decode)
        alone = opened.reply(decoder=INDEPENDENT) if compare else None
    if as_json:
        screen.say_json(reply_json(reply, alone))
        return
    from jpr.cli.drawn import draw

    draw(reply, alone, explain=explain)
    if docs is None and index is None and sys.stdout.isatty():
        screen.note("this is the encyclopedia that comes along; --docs FOLDER asks your own")


def _check(question: str, docs: Path | None, index: Path | None, k: int) -> None:
    if not question.strip():
        raise ConfigError("the question is empty; ask something")
    refuse_both(docs, index)
    if k < 1:
        raise ConfigError(f"-k {k}: ask for at least one passage")


def _check_decoder(decode: str | None, beta: float | None) -> None:
    if decode is not None and decode not in DECODERS:
        raise ConfigError(f"--decode {decode}; choose one of {', '.join(DECODERS)}")
    if beta is not None and decode not in (None, *_TREES):
        raise ConfigError(f"--beta is for --decode {' and '.join(_TREES)}; leave it out")
    if beta is not None and not isfinite(beta):
        raise ConfigError(f"--beta {beta}; give a finite number")
