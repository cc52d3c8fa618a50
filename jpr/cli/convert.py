"""`jpr convert`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Corpus, Origin, Questions, Split, argument, option
from jpr.errors import ConfigError, DataError
from jpr.formats.format import detect, writable
from jpr.io.atomic import publish
from jpr.types import Passage, Question, Ranking


class ConvertArguments(Arguments):
    source: Path = argument("File or folder to read.")
    target: Path = argument("File to write.")
    to: str = option("Output", "Format to write.", metavar="FORMAT", default=...)
    from_: Origin = None
    split: Split = None
    corpus: Corpus = None
    questions: Questions = None

    def __post_init__(self) -> None:
        self.check_separate("target", "source", "corpus", "questions")


def run(options: ConvertArguments) -> None:
    """Convert passages, questions or rankings to another format.

    Articles can be split into passages; questions and passages can be extracted from rankings. A
    target that ends in .gz, .xz, .bz2 or .zst is compressed. `jpr validate` lists the formats.

    Example: jpr convert psgs_w100.tsv.gz corpus.jsonl --to beir
    Example: jpr convert enwiki.xml.bz2 passages.tsv --to tsv --split words:100
    Example: jpr convert run.trec run.jsonl --to ctxs --corpus passages.tsv --questions dev.jsonl
    """
    kinds = files.all_formats()
    origin = detect(options.source, kinds, options.from_)
    source, target = kinds[origin], kinds[writable(kinds, options.to)]
    if options.split and target.name != "passages":
        raise ConfigError(f"--split is for passages; {options.to} holds {target.name}")
    if source.name != "rankings" and (options.corpus or options.questions):
        raise ConfigError(
            f"--corpus and --questions are for rankings; {options.source} holds {source.name}"
        )
    extracted: dict[str, Callable[[Iterable[Ranking]], Iterator[Any]]]
    extracted = {"questions": _questions_of, "passages": _passages_of}
    extract = extracted.get(target.name) if source.name == "rankings" else None
    if extract is None and source is not target:
        raise ConfigError(
            f"{source.name} cannot be written as {target.name}; choose a format for {source.name}"
        )
    records = source.read(options.source, origin.name)
    with files.naming(options.source):
        if source.name == "rankings":
            records = files.fill_in(records, options.corpus, options.questions)
        records = files.split_passages(extract(records) if extract else records, options.split)
        counted = output.counted(f"writing {target.name}", records)
        with closing(counted), publish(options.target) as stream:
            target.write(counted, stream, options.to)


def _questions_of(rankings: Iterable[Ranking]) -> Iterator[Question]:
    for ranking in rankings:
        if not ranking.question.text:
            raise DataError("the run holds only ids; give the questions with --questions")
        yield ranking.question


def _passages_of(rankings: Iterable[Ranking]) -> Iterator[Passage]:
    seen = set()
    for hit in (hit for ranking in rankings for hit in ranking.hits):
        if hit.passage.id not in seen:
            if hit.passage.is_bare:
                raise DataError("the run holds only ids; give the texts with --corpus")
            seen.add(hit.passage.id)
            yield hit.passage
