"""Files as all commands read them: corpora, runs with their texts, and what a file holds."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from jpr.cli import output
from jpr.errors import ConfigError, DataError
from jpr.formats import corpus as passages
from jpr.formats import questions, runs
from jpr.formats.corpus import read_passages
from jpr.formats.format import Format, RecordKind, head_of
from jpr.formats.questions import check_lengths, load_questions
from jpr.formats.runs import load_rankings, predictions
from jpr.formats.runs.align import align, check_unique_passages, fill_texts
from jpr.io.text_files import watch_reading
from jpr.types import Passage, Question, Ranking

_MB = 1 << 20


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of a file before errors about its contents."""
    try:
        yield
    except DataError as error:
        named = str(error).startswith(f"{path}: ")
        raise error if named else DataError(f"{path}: {error}") from error


@cache
def all_formats() -> dict[Format[Any], RecordKind]:
    """Return every format, with the kind of record it is for."""
    from jpr.formats.runs import trec

    kinds = (passages.KIND, questions.KIND, runs.KIND, predictions.KIND, trec.KIND)
    return {format: kind for kind in kinds for format in kind.formats}


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def read_corpus(
    corpus: Path, split: str | None = None, *, quiet: bool = False
) -> Iterator[Passage]:
    """Yield the passages of a corpus, split as `--split` says, and show the progress.

    A folder of documents is read and split as by `jpr ask --docs`, with a note on each file that is
    left out. `quiet` shows no bar and no notes: for a corpus that is read twice.
    """
    from jpr.formats.corpus import documents
    from jpr.formats.corpus.document_process import read_documents

    if corpus.is_dir() and documents.text_folder.sniff(head_of(corpus)):
        note = (lambda _: None) if quiet else output.note
        found, empty = documents.find_documents(corpus, note), True
        with output.progress("reading files", len(found), quiet=quiet) as progress:
            for _, read in read_documents(found, _cut(split), note, progress):
                yield from read
                empty = empty and not read
        if empty:
            raise documents.nothing_read(corpus)
        return
    bar = output.progress("reading passages, MB", size_of(corpus) // _MB, quiet=quiet)
    with bar as progress, watch_reading() as reading:
        shown = 0
        for count, passage in enumerate(split_passages(read_passages(corpus), split)):
            yield passage
            if count % 1000 == 0 and (done := sum(reading.values()) // _MB) > shown:
                progress(done - shown)
                shown = done


def split_passages(passages: Iterable[Passage], split: str | None) -> Iterator[Passage]:
    """Split passages as `--split` says; without it, return them unchanged."""
    if split is None:
        return iter(passages)
    cut = _cut(split)
    return (piece for passage in passages for piece in cut(passage))


def _cut(split: str | None) -> Callable[[Passage], Iterable[Passage]]:
    """Return what splits a passage as `--split` says; without it, as documents are split."""
    from jpr.encode.encoder_folder import BUNDLED_ENCODER
    from jpr.encode.tokenizer import read_tokenizer
    from jpr.formats.corpus.split import split_wordpieces, split_words, usual_cut

    if split is None:
        return usual_cut(read_tokenizer(BUNDLED_ENCODER))
    unit, _, rest = split.partition(":")
    size, _, tokenizer = rest.partition(":")
    is_known = unit == "wordpieces" or (unit == "words" and not tokenizer)
    if not is_known or not size.isdecimal() or not int(size):
        raise ConfigError(
            f"--split {split}: write words:100, wordpieces:288 or wordpieces:288:tokenizer.json"
        )
    if unit == "words":
        return partial(split_words, words=int(size))
    loaded = read_tokenizer(Path(tokenizer) if tokenizer else BUNDLED_ENCODER)
    return partial(split_wordpieces, tokenizer=loaded, limit=int(size))


def fill_in(
    rankings: Iterable[Ranking], corpus: Path | None, questions: Path | None
) -> Iterable[Ranking]:
    """Add texts from a corpus and questions from a file to rankings, if these are given."""
    if corpus:
        rankings = fill_texts(rankings, read_corpus(corpus))
    if questions:
        aligned = align(load_questions(questions), rankings)
        rankings = aligned.items
        if unknown := len(aligned.unknown):
            output.note(f"left out {output.count(unknown, 'ranking')} for other questions")
        if missing := len(aligned.missing):
            output.note(f"{output.count(missing, 'question')} without a ranking; left empty")
    return rankings


def read_run(
    source: Path,
    corpus: Path | None,
    questions: Path | None,
    *,
    needs_texts: bool = True,
    needs_answers: bool = False,
) -> list[Ranking]:
    """Read a run and reject, before any work, one that lacks texts or answers."""
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


def _check_texts(ranking: Ranking) -> None:
    check_lengths([ranking.question])
    which, n = f"question {ranking.question.id!r}", len(ranking.hits)
    if not ranking.question.text.strip():
        raise DataError(f"{which} has no text; give the questions with --questions")
    if bare := sum(hit.passage.is_bare for hit in ranking.hits):
        problem = f"{bare} of {n} passages of {which} have no text"
        raise DataError(f"{problem}; give the texts with --corpus")


def load_searchable(path: Path) -> list[Question]:
    """Read questions; reject those that have no text or are too long."""
    questions = load_questions(path)
    with naming(path):
        for question in questions:
            if not question.text.strip():
                raise DataError(f"question {question.id!r} has no text to search for")
        check_lengths(questions)
    return questions
