"""`jpr retrieve`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jpr
from jpr.batch import retrieve_to_file
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Json, Workers, argument, option
from jpr.errors import ConfigError
from jpr.io.cluster import StageSpec, open_runner
from jpr.retrieve.duplicates import DistinctRetriever
from jpr.retrieve.filters import parse_filter
from jpr.types import Question, Ranking

if TYPE_CHECKING:
    from jpr.retrieve.retrievers import KeyedRetriever

_SHOWN = 10


class RetrieveArguments(Arguments):
    index: Path = argument("Folder of an index made by `jpr index`.")
    question: str | None = argument("Question to search for.", default=None)
    questions: Path | None = option("Input", "File of questions to search for.", "-q")
    out: Path | None = option("Output", "With --questions: run to write.", "-o")
    k: int = option("Output", "Number of passages per question.", default=100)
    retriever: str | None = option(
        "Model", "bm25, dense or hybrid.", "-r", show_default="hybrid, or bm25 without vectors"
    )
    where: list[str] | None = option(
        "Input",
        "Keep passages with this title or metadata; repeatable. Values of one field are "
        "alternatives; different fields must all match.",
        metavar="FIELD=VALUE",
    )
    encoder: Path | None = option("Model", "Folder of the index's encoder, if it has moved.")
    distinct: bool = option("Output", "Drop near-duplicates of better passages.", default=False)
    workers: Workers = None
    json: Json = False

    def __post_init__(self) -> None:
        self.check_positive("k")
        if (self.question is None) == (self.questions is None):
            raise ConfigError("give either a question or --questions FILE")
        if self.questions is None:
            self.reject("needs --questions; remove it", "out", "workers")
            if not (self.question or "").strip():
                raise ConfigError("the question is empty")
            return
        self.reject("for a single question; remove it", "json")
        if self.out is None:
            raise ConfigError("--questions needs --out FILE for the run")
        self.check_separate("out", "questions")


def run(options: RetrieveArguments) -> None:
    """Retrieve passages for a question, or write a run for many.

    A run (ctxs JSON lines) that was interrupted resumes when the command is run again.

    Example: jpr retrieve wiki "who plays mark on roseanne" -k 20
    Example: jpr retrieve wiki "who won the cup" -r bm25 --where year=1998 --where year=2002
    Example: jpr retrieve wiki --questions dev.jsonl --out hybrid.jsonl -k 100 --workers 8
    """
    encoder = options.encoder and options.encoder.resolve()
    how = (options.retriever, tuple(options.where or ()), encoder, options.distinct)
    if options.question is not None:
        retriever = open_index(options.index, *how)
        _print(retriever.retrieve(Question("", options.question), options.k), options.json)
        return
    assert options.questions
    assert options.out
    questions, k = files.load_searchable(options.questions), options.k
    retriever = open_index(options.index, *how)
    key, there = retriever.key, (options.index.resolve(), *how, 1)
    spec = StageSpec(open_index, there, key, str(options.index))
    n = len(questions)
    with open_runner(options.workers, spec) as on, output.progress("retrieving", n) as progress:
        retrieve_to_file(retriever, questions, options.out, k, key=key, progress=progress, run=on)
    output.note(f"wrote {output.count(n, 'ranking')} to {options.out}")


def _print(found: Ranking, json: bool) -> None:
    if json:
        from jpr.retrieve.retrievers import hits_json

        output.write_json({"question": found.question.text, "hits": hits_json(found)})
        return
    for rank, hit in enumerate(found.hits[:_SHOWN], start=1):
        head = output.escape(f"{hit.passage.title}  [{hit.passage.id}]")
        output.write(f"{rank:3}  {hit.score:6.3g}  {head}")
        output.write(f"             {output.escape(' '.join(hit.passage.text.split())[:100])}")
    if len(found.hits) > _SHOWN:
        output.note(f"{len(found.hits) - _SHOWN} more passages; --json prints all")
    if not found.hits:
        output.note("no passage matches")


def open_index(
    folder: Path,
    kind: str | None,
    where: Sequence[str],
    encoder: Path | None,
    distinct: bool,
    threads: int = 0,
) -> "KeyedRetriever":
    """Open the retriever of an index."""
    filter, loaded = parse_filter(where) if where else None, None
    if encoder is not None:
        loaded = jpr.load_encoder(encoder, threads=threads)
    retriever = jpr.open_retriever(folder, kind, encoder=loaded, where=filter, threads=threads)
    return DistinctRetriever(retriever) if distinct else retriever
