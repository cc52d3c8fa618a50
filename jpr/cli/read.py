"""`jpr read`: every distinct answer that a question's passages give."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import CorpusOption, QuestionsOption
from jpr.cli.rerank import read_run
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jpr.read.batch import KeyedReader

NAME = "read"
HELP = """Read the answers to each question off the passages of a run, and write them as JSON lines.

Every answer is a piece of a passage, and comes with the passages that contain it and where. A run
that was interrupted goes on where it was when the same command is given again.

Example: jpr read joint.jsonl --out answers.jsonl

Example: jpr read first.jsonl --choose 5 --out answers.jsonl

Example: jpr read joint.jsonl --llm http://localhost:8000/v1 --llm-model qwen --out answers.jsonl
"""


def run(
    source: Annotated[Path, typer.Argument(metavar="RUN", help="File of rankings.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of answers to write.")],
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Read the first k passages; by default all.")
    ] = None,
    choose: Annotated[
        int | None,
        typer.Option(
            min=1, help="Choose so many of the passages jointly, and read those with the others."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a model that reads answers; by default ours.")
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(help="Answers so many times as likely as the likeliest.  [default: 0.3]"),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Answers to a question at most.")] = 20,
    llm: Annotated[
        str | None, typer.Option(help="Base URL of an OpenAI-compatible endpoint to read instead.")
    ] = None,
    llm_model: Annotated[str, typer.Option(help="--llm: the model's name there.")] = "",
    timeout: Annotated[
        float | None, typer.Option(help="--llm: seconds for a question.  [default: 60]")
    ] = None,
    any_text: Annotated[
        bool, typer.Option("--any-text", help="--llm: keep answers that no passage contains.")
    ] = False,
    questions: QuestionsOption = None,
    corpus: CorpusOption = None,
) -> None:
    """Read question by question."""
    from jpr.read.batch import read_to_file

    for_llm = {"--llm-model": llm_model, "--any-text": any_text, "--timeout": timeout}
    for_model = {"--model": model, "--least": least, "--choose": choose}
    _refuse("--llm reads by itself", for_model if llm else {})
    _refuse("for --llm alone", {} if llm else for_llm)
    _refuse("--choose reads all passages", {"-k": k} if choose else {})
    reader = (
        _endpoint(llm, llm_model, timeout, most, any_text)
        if llm
        else _ours(model, least, most, choose)
    )
    rankings = read_run(source, corpus, questions, NAME)
    rankings = [ranking.top(k) for ranking in rankings] if k else rankings
    with screen.progress("reading", len(rankings)) as progress:
        read_to_file(reader, rankings, out, progress)
    screen.note(f"answers to {len(rankings):,} questions are in {out}")


def _refuse(why: str, options: "Mapping[str, object]") -> None:
    """Refuse options that would be ignored."""
    if given := [name for name, value in options.items() if value]:
        raise ConfigError(f"{', '.join(given)}: {why}; leave out what is not used")


def _endpoint(
    url: str, model: str, timeout: float | None, most: int, any_text: bool
) -> "KeyedReader":
    from jpr.read.llm import LlmReader

    return LlmReader(url, model, timeout=timeout or 60.0, most=most, any_text=any_text)


def _ours(model: Path | None, least: float | None, most: int, choose: int | None) -> "KeyedReader":
    from jpr.read.load import is_fusion, load_reader
    from jpr.read.spans import LEAST, ChoosingReader, SpanReader
    from jpr.rerank.joint import JointReranker

    if model is not None and is_fusion(model):
        _refuse("--model is a T5 that writes", {"--least": least, "--choose": choose})
        return load_reader(model)
    joint = JointReranker.load(model)
    reader = SpanReader(joint, LEAST if least is None else least, most)
    return ChoosingReader(joint, reader, choose) if choose else reader
