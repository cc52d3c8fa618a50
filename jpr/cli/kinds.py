"""The kinds of file there are, and which of them a given file is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from jpr.formats import corpus, questions, runs
from jpr.formats.format import Format, detect, writable
from jpr.formats.runs import predictions, trec


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record, its formats, and how it is read and written."""

    name: str
    formats: Sequence[Format[Any]]
    read: Callable[[Path, str], Iterator[Any]]
    write: Callable[[Iterable[Any], TextIO, str], None] | None = None


KINDS = (
    Kind("passages", corpus.FORMATS, corpus.read_passages, corpus.write_passages),
    Kind(
        "questions",
        questions.FORMATS,
        lambda path, format: iter(questions.load_questions(path, format)),
        questions.write_questions,
    ),
    Kind("rankings", runs.FORMATS, runs.read_rankings, runs.write_rankings),
    Kind(
        "answers",
        predictions.FORMATS,
        lambda path, format: iter(predictions.load_predictions(path, format)),
    ),
    Kind(
        "judgements",
        (trec.QRELS,),
        lambda path, _: iter(trec.load_qrels(path)),
        lambda judgements, stream, _: trec.write_qrels(judgements, stream),
    ),
)
_KIND_OF = {format.name: (kind, format) for kind in KINDS for format in kind.formats}
_FORMATS: list[Format[Any]] = [format for _, format in _KIND_OF.values()]


def recognise(path: Path, name: str | None = None) -> tuple[Kind, Format[Any]]:
    """Return what a file is, by its name for `--from` or by looking at its first record."""
    return _KIND_OF[detect(path, _FORMATS, name).name]


def target(name: str) -> tuple[Kind, Format[Any]]:
    """Return a format that can be written."""
    return _KIND_OF[writable(_FORMATS, name).name]
