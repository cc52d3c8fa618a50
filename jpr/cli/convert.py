"""`jpr convert`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from jpr.cli import output
from jpr.cli.arguments import Corpus, Questions, Split, argument, option
from jpr.cli.files import fill_in, naming, recognize, split_passages, writable_format
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.types import Passage, Question, Ranking


@dataclass(frozen=True, kw_only=True)
class ConvertArguments:
    """What `jpr convert` takes."""

    source: Annotated[Path, argument("File or folder to read.")]
    target: Annotated[Path, argument("File to write.")]
    to: Annotated[str, option("Output", "Format to write.", "--to", metavar="FORMAT")]
    origin: Annotated[
        str | None,
        option("Input", "Format to read.", "--from", metavar="FORMAT", show_default="detected"),
    ] = None
    split: Split = None
    corpus: Corpus = None
    questions: Questions = None


def run(options: ConvertArguments) -> None:
    """Convert passages, questions or rankings to another format.

    Articles can be split into passages; questions and passages can be extracted from rankings. A
    target that ends in .gz, .xz, .bz2 or .zst is compressed. `jpr validate` lists the formats.

    Example: jpr convert psgs_w100.tsv.gz corpus.jsonl --to beir

    Example: jpr convert enwiki.xml.bz2 passages.tsv --to tsv --split words:100

    Example: jpr convert run.trec run.jsonl --to ctxs --corpus passages.tsv --questions dev.jsonl
    """
    from jpr.io.atomic import publish

    source, origin = recognize(options.source, options.origin)
    target, format = writable_format(options.to)
    if options.split and target.name != "passages":
        raise ConfigError(f"--split is for passages; {options.to} holds {target.name}")
    records = source.read(options.source, origin.name)
    with naming(options.source):
        if source.name == "rankings":
            records = fill_in(records, options.corpus, options.questions)
        elif options.corpus or options.questions:
            raise ConfigError(
                f"--corpus and --questions are for rankings; {options.source} holds {source.name}"
            )
        if source is not target:
            records = _extract(records, source.name, target.name)
        records = split_passages(records, options.split)
        assert target.write is not None
        with (
            output.progress(f"writing {target.name}", None) as progress,
            publish(options.target) as stream,
        ):
            target.write(output.counted(records, progress), stream, format.name)


def _extract(records: "Iterable[Ranking]", kind: str, target: str) -> Iterator[Any]:
    if kind != "rankings" or target not in ("questions", "passages"):
        raise ConfigError(f"{kind} cannot be written as {target}; choose a format for {kind}")
    return _questions_of(records) if target == "questions" else _passages_of(records)


def _questions_of(rankings: "Iterable[Ranking]") -> "Iterator[Question]":
    for ranking in rankings:
        if not ranking.question.text:
            raise DataError("the run holds only ids; give the questions with --questions")
        yield ranking.question


def _passages_of(rankings: "Iterable[Ranking]") -> "Iterator[Passage]":
    seen = set()
    for ranking in rankings:
        for hit in ranking.hits:
            if hit.passage.id not in seen:
                if hit.passage.is_bare:
                    raise DataError("the run holds only ids; give the texts with --corpus")
                seen.add(hit.passage.id)
                yield hit.passage
