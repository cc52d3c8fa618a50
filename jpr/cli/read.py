"""`jpr read`: every distinct answer that a question's passages give."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import CorpusOption, QuestionsOption, refuse_own
from jpr.cli.processes import Processes, Scheduler, Workers
from jpr.cli.rerank import read_run
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jpr.read.batch import KeyedReader

NAME = "read"
HELP = """Read the answers off the passages of a run. They are written as JSON lines.

Every answer is a piece of a passage (--any-text apart), and comes with the passages that contain it
and where. A run that was interrupted goes on where it was when the same command is given again.
With --workers or --scheduler, Dask shares the work out, and the result is the same; workers must
find the model under the same path.

Example: jpr read joint.jsonl --out answers.jsonl

Example: jpr read joint.jsonl --out answers.jsonl --scheduler tcp://node1:8786

Example: jpr read first.jsonl --choose 5 --out answers.jsonl

Example: jpr read joint.jsonl --model models/reader --beams 4 --out answers.jsonl

Example: jpr read joint.jsonl --llm http://localhost:8000/v1 --llm-model qwen --out answers.jsonl
"""


_NOT = (None, False)
"""What an option is that was not given."""


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
    llm_model: Annotated[
        str | None, typer.Option(help="--llm: the model's name there; the key is OPENAI_API_KEY.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="--llm: seconds for a question.  [default: 60]")
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(help="--llm: the id of a question to leave without answers; repeatable."),
    ] = None,
    any_text: Annotated[
        bool,
        typer.Option("--any-text", help="--llm, a T5: give answers that no passage contains, too."),
    ] = False,
    beams: Annotated[
        int | None, typer.Option(min=1, help="A T5: sequences to search with.  [default: its own]")
    ] = None,
    stop_penalty: Annotated[
        float | None, typer.Option(help="A T5: more, and it writes more.  [default: its own]")
    ] = None,
    questions: QuestionsOption = None,
    corpus: CorpusOption = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Read question by question."""
    from jpr.io.cluster import StageSpec
    from jpr.read.batch import read_to_file
    from jpr.read.llm import LlmReader
    from jpr.read.load import Wanted, is_fusion, open_reader
    from jpr.read.spans import LEAST

    for_llm = {"--llm-model": llm_model, "--timeout": timeout, "--skip": skip}
    for_spans = {"--least": least, "--choose": choose}
    for_t5 = {"--beams": beams, "--stop-penalty": stop_penalty}
    for_workers = {"--workers": workers, "--scheduler": scheduler}
    processes = Processes(workers, scheduler)
    refuse_own(out, source, corpus, questions)
    by_llm = None
    if llm is not None:
        _refuse("--llm reads by itself", {"--model": model, **for_spans, **for_t5, **for_workers})
        limit = 60.0 if timeout is None else timeout
        by_llm = LlmReader(
            llm, llm_model or "", timeout=limit, most=most, any_text=any_text, skip=skip or ()
        )
    elif model is not None and is_fusion(model):
        _refuse("not for a T5 that writes", {**for_llm, **for_spans})
    else:
        _refuse("for --llm, or a T5 that writes", {**for_llm, **for_t5, "--any-text": any_text})
        _refuse("--choose reads all passages", {"-k": k} if choose else {})
    wanted = Wanted(
        model,
        most,
        LEAST if least is None else least,
        choose,
        any_text=any_text,
        beams=beams,
        stop_penalty=stop_penalty,
    )
    reader: KeyedReader = by_llm or open_reader(wanted)[0]
    rankings = read_run(source, corpus, questions)
    rankings = [ranking.top(k) for ranking in rankings] if k else rankings
    opening = StageSpec(
        open_reader, (wanted.elsewhere(),), reader.key, str(model or "our own model")
    )
    with (
        processes.spread(opening) as spread,
        screen.progress("reading", len(rankings)) as progress,
    ):
        read_to_file(reader, rankings, out, progress, spread)
    screen.note(f"answers to {len(rankings):,} questions are in {out}")


def _refuse(why: str, options: "Mapping[str, object]") -> None:
    """Refuse options that would be ignored."""
    if given := [n for n, value in options.items() if not any(value is x for x in _NOT)]:
        raise ConfigError(f"{', '.join(given)}: {why}; leave out what is not used")
