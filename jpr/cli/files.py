"""Files as all commands read them: corpora, runs with their texts, and what a file holds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jpr.cli import output
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.formats.corpus.documents import Cut
    from jpr.formats.format import Format
    from jpr.types import Passage, Question, Ranking


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of a file before errors about its contents."""
    try:
        yield
    except DataError as error:
        named = str(error).startswith(f"{path}: ")
        raise error if named else DataError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of record: its formats, and how it is read and written."""

    name: str
    formats: "Sequence[Format[Any]]"
    read: Callable[[Path, str], Iterator[Any]]
    write: Callable[[Iterable[Any], TextIO, str], None] | None = None


@cache
def record_kinds() -> tuple[RecordKind, ...]:
    """Return every kind of record."""
    from jpr.formats import corpus, questions, runs
    from jpr.formats.runs import predictions, trec

    return (
        RecordKind("passages", corpus.FORMATS, corpus.read_passages, corpus.write_passages),
        RecordKind(
            "questions",
            questions.FORMATS,
            lambda path, format: iter(questions.load_questions(path, format)),
            questions.write_questions,
        ),
        RecordKind("rankings", runs.FORMATS, runs.read_rankings, runs.write_rankings),
        RecordKind(
            "answers",
            predictions.FORMATS,
            lambda path, format: iter(predictions.load_predictions(path, format)),
        ),
        RecordKind(
            "judgements",
            (trec.QRELS,),
            lambda path, _: iter(trec.load_qrels(path)),
            lambda judgements, stream, _: trec.write_qrels(judgements, stream),
        ),
    )


def recognize(path: Path, name: str | None = None) -> "tuple[RecordKind, Format[Any]]":
    """Return the kind and format of a file, by the format's name or by its first record."""
    from jpr.formats.format import detect

    return _kind_of(detect(path, _formats(), name).name)


def writable_format(name: str) -> "tuple[RecordKind, Format[Any]]":
    """Return a format that can be written, by its name."""
    from jpr.formats.format import writable

    return _kind_of(writable(_formats(), name).name)


def _formats() -> "list[Format[Any]]":
    return [format for kind in record_kinds() for format in kind.formats]


def _kind_of(name: str) -> "tuple[RecordKind, Format[Any]]":
    return next((kind, one) for kind in record_kinds() for one in kind.formats if one.name == name)


def read_corpus(
    corpus: Path, split: str | None = None, note: Callable[[str], None] = output.note
) -> "Iterator[Passage]":
    """Yield the passages of a corpus, split as `--split` says.

    A folder of documents is read and split as by `jpr ask --docs`; `note` receives the files that
    are left out.
    """
    from jpr.formats.corpus import read_passages

    if not is_documents(corpus):
        return split_passages(read_passages(corpus), split)
    from jpr.encode.encoder_folder import BUNDLED_ENCODER
    from jpr.formats.corpus.documents import usual_cut
    from jpr.formats.corpus.split import load_tokenizer

    cut = _cut(split) if split else usual_cut(load_tokenizer(BUNDLED_ENCODER / "tokenizer.json"))
    return _documents(corpus, cut, note)


def is_documents(corpus: Path) -> bool:
    """Whether a corpus is a folder of documents."""
    from jpr.formats.corpus import folder
    from jpr.formats.format import head_of

    return corpus.is_dir() and folder.FORMAT.sniff(head_of(corpus))


def _documents(folder: Path, cut: "Cut", note: Callable[[str], None]) -> "Iterator[Passage]":
    from jpr.formats.corpus.documents import find_documents, read_documents

    found = find_documents(folder)
    with output.progress("reading files", len(found.files)) as progress:
        yield from read_documents(folder, found, cut, note, progress)


def split_passages(passages: "Iterable[Passage]", split: str | None) -> "Iterator[Passage]":
    """Split passages as `--split` says; without it, return them unchanged."""
    if split is None:
        return iter(passages)
    cut = _cut(split)
    return (piece for passage in passages for piece in cut(passage))


def _cut(split: str) -> "Cut":
    from jpr.encode.encoder_folder import BUNDLED_ENCODER
    from jpr.formats.corpus.split import load_tokenizer, split_wordpieces, split_words

    unit, _, rest = split.partition(":")
    size, _, tokenizer = rest.partition(":")
    is_known = unit == "wordpieces" or (unit == "words" and not tokenizer)
    if not is_known or not size.isdecimal() or not int(size):
        raise ConfigError(
            f"--split {split}: write words:100, wordpieces:288 or wordpieces:288:tokenizer.json"
        )
    if unit == "words":
        return partial(split_words, words=int(size))
    loaded = load_tokenizer(Path(tokenizer) if tokenizer else BUNDLED_ENCODER / "tokenizer.json")
    return partial(split_wordpieces, tokenizer=loaded, limit=int(size))


def fill_in(
    rankings: "Iterable[Ranking]", corpus: Path | None, questions: Path | None
) -> "Iterator[Ranking]":
    """Add texts from a corpus and questions from a file to rankings, if these are given."""
    from jpr.formats.questions import load_questions
    from jpr.formats.runs.align import align, fill_texts

    if corpus:
        with output.progress("reading passages", None) as progress:
            passages = output.counted(read_corpus(corpus), progress)
            rankings = fill_texts(rankings, passages)
    if questions:
        aligned = align(load_questions(questions), rankings)
        rankings = aligned.items
        if aligned.unknown:
            output.note(f"{len(aligned.unknown)} rankings are for other questions; left out")
        if aligned.missing:
            output.note(f"{len(aligned.missing)} questions have no ranking; left empty")
    return iter(rankings)


def read_run(
    source: Path,
    corpus: Path | None,
    questions: Path | None,
    *,
    needs_texts: bool = True,
    needs_answers: bool = False,
) -> "list[Ranking]":
    """Read a run and reject, before any work, one that lacks texts or answers."""
    from jpr.formats.runs import load_rankings
    from jpr.formats.runs.align import check_unique_passages
    from jpr.rerank.oracle import check_answers

    with naming(source):
        rankings = list(fill_in(load_rankings(source), corpus, questions))
        for ranking in rankings:
            check_unique_passages(ranking)
            if needs_texts:
                _check_texts(ranking)
            if needs_answers:
                check_answers(ranking.question)
    return rankings


def _check_texts(ranking: "Ranking") -> None:
    from jpr.formats.questions import check_lengths

    check_lengths([ranking.question])
    id = ranking.question.id
    if not ranking.question.text.strip():
        raise DataError(f"question {id!r} has no text; give the questions with --questions")
    bare = sum(hit.passage.is_bare for hit in ranking.hits)
    if bare:
        raise DataError(
            f"{bare} of {len(ranking.hits)} passages of question {id!r} have no text; "
            "give the texts with --corpus"
        )


def check_searchable(path: Path, questions: "Sequence[Question]") -> None:
    """Reject questions of a file that have no text or are too long."""
    from jpr.formats.questions import check_lengths

    empty = next((question.id for question in questions if not question.text.strip()), None)
    if empty is not None:
        raise DataError(f"{path}: question {empty!r} has no text to search for")
    with naming(path):
        check_lengths(questions)
