"""`jpr convert`: from one file format to another."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jpr.cli import screen
from jpr.cli.corpora import Split, TokenizerFile, read_corpus, split_passages
from jpr.cli.inputs import naming
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.cli.kinds import Kind
    from jpr.types import Passage, Question, Ranking

NAME = "convert"
HELP = """Rewrite a file in another format. It holds passages, questions or rankings.

What the input is, is recognised unless --from says it. Articles can be split into passages on the
way, and questions or passages taken out of rankings. An output name that ends in .gz, .xz, .bz2 or
.zst is compressed. `jpr formats` lists what can be read and written.

Example: jpr convert psgs_w100.tsv.gz corpus.jsonl --to beir

Example: jpr convert enwiki.xml.bz2 passages.tsv --to tsv --split words:100

Example: jpr convert run.trec run.jsonl --to ctxs --corpus passages.tsv --questions dev.jsonl
"""


def run(
    source: Annotated[Path, typer.Argument(help="File or folder to read.")],
    target: Annotated[Path, typer.Argument(help="File to write.")],
    to: Annotated[str, typer.Option("--to", help="Format to write.")],
    origin: Annotated[
        str | None, typer.Option("--from", help="Format of the input, if it is not recognized.")
    ] = None,
    split: Split = None,
    tokenizer: TokenizerFile = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Passages, to fill in texts of a run that has only ids.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(help="Questions, to fill in those of a run that has only ids.")
    ] = None,
) -> None:
    """Read and write record by record."""
    from jpr.cli.kinds import recognise
    from jpr.cli.kinds import target as format_called

    from_kind, from_format = recognise(source, origin)
    to_kind, to_format = format_called(to)
    _check(split, tokenizer, to_kind.name)
    records = from_kind.read(source, from_format.name)
    with naming(source):
        if from_kind.name == "rankings":
            records = fill_in(records, corpus, questions)
        elif corpus or questions:
            raise ConfigError("--corpus and --questions fill in rankings; the input holds none")
        if from_kind is not to_kind:
            records = _taken_out(records, from_kind.name, to_kind.name)
        if split:
            records = split_passages(records, split, tokenizer)
        _write(records, target, to_kind, to_format.name)


def _write(records: Iterable[Any], target: Path, kind: "Kind", format: str) -> None:
    from jpr.io.atomic import publish

    assert kind.write is not None
    with screen.progress(f"writing {kind.name}", None) as progress, publish(target) as stream:
        kind.write(screen.counted(records, progress), stream, format)


def _check(split: str | None, tokenizer: Path | None, wanted: str) -> None:
    if split and wanted != "passages":
        raise ConfigError("--split cuts passages; the output holds none")
    if tokenizer and not (split and split.startswith("wordpieces")):
        raise ConfigError("--tokenizer is for --split wordpieces:N; leave it out")


def fill_in(
    rankings: "Iterable[Ranking]", corpus: Path | None, questions: Path | None
) -> "Iterator[Ranking]":
    """Give rankings the texts of a corpus and the questions of a file, where these are given."""
    from jpr.formats.questions import load_questions
    from jpr.formats.runs.align import align, fill_texts

    if corpus:
        with screen.progress("reading passages", None) as progress:
            passages = screen.counted(read_corpus(corpus), progress)
            rankings = fill_texts(rankings, passages)
    if questions:
        aligned = align(load_questions(questions), rankings)
        rankings = aligned.rankings
        if aligned.unknown:
            screen.note(f"{len(aligned.unknown)} rankings are for other questions; left out")
        if aligned.missing:
            screen.note(f"{len(aligned.missing)} questions have no ranking; an empty one is made")
    return iter(rankings)


def _taken_out(records: "Iterable[Ranking]", kind: str, wanted: str) -> Iterator[Any]:
    if kind != "rankings" or wanted not in ("questions", "passages"):
        raise ConfigError(f"{kind} cannot be written as {wanted}; choose a format for {kind}")
    return _questions_of(records) if wanted == "questions" else _passages_of(records)


def _questions_of(rankings: "Iterable[Ranking]") -> "Iterator[Question]":
    for ranking in rankings:
        if not ranking.question.text:
            raise DataError("the run holds ids only; give the questions with --questions")
        yield ranking.question


def _passages_of(rankings: "Iterable[Ranking]") -> "Iterator[Passage]":
    seen = set()
    for ranking in rankings:
        for hit in ranking.hits:
            if hit.passage.id not in seen:
                if hit.passage.is_bare:
                    raise DataError("the run holds ids only; give the texts with --corpus")
                seen.add(hit.passage.id)
                yield hit.passage
