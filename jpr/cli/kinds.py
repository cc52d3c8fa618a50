"""The kinds of file there are, and which of them a given file is."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from jpr import corpus, questions, runs
from jpr.errors import ConfigError, FormatError
from jpr.formats import Format, head_of
from jpr.runs import predictions, qrels


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record, its formats, and how it is read and written."""

    name: str
    formats: tuple[Format[Any], ...]
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
        (qrels.FORMAT,),
        lambda path, _: iter(qrels.load_qrels(path)),
        lambda judgements, stream, _: qrels.write_qrels(judgements, stream),
    ),
)


def recognise(path: Path, name: str | None = None) -> tuple[Kind, Format[Any]]:
    """Return what a file is, by its name for `--from` or by looking at its first record."""
    known = [(kind, format) for kind in KINDS for format in kind.formats]
    if name is not None:
        return _named(name, known)
    head = head_of(path)
    found = [(kind, format) for kind, format in known if format.sniff(head)]
    if len(found) == 1:
        return found[0]
    if not found and head.broken:
        raise head.broken
    names = ", ".join(f"{format.name} ({kind.name})" for kind, format in found or known)
    problem = f"could be any of {names}" if found else "not recognised as any known format"
    hint = "say which with --from" if found else f"if it is one of these, say so: --from {names}"
    raise FormatError(path, 0, f"{problem}; {hint}")


def target(name: str) -> tuple[Kind, Format[Any]]:
    """Return a format that can be written."""
    known = [
        (kind, format) for kind in KINDS for format in kind.formats if format.write is not None
    ]
    return _named(name, known)


def _named(name: str, known: list[tuple[Kind, Format[Any]]]) -> tuple[Kind, Format[Any]]:
    for kind, format in known:
        if name in (format.name, f"{kind.name}:{format.name}"):
            return kind, format
    names = ", ".join(format.name for _, format in known)
    raise ConfigError(f"unknown format {name!r}; there are: {names}")
