"""Diversity judgements: `question subtopic passage relevance`, separated by white space.

The subtopic stands in the second column, as for ndeval and ir_measures. Plain qrels, whose second
column is always 0, are judgements of one subtopic.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from jpr.errors import DataError, FormatError
from jpr.formats.format import Format, Head, Located
from jpr.formats.runs.columns import columns_of, first_columns, is_whole, is_word
from jpr.io.text_files import read_lines


@dataclass(frozen=True, slots=True)
class Judgement:
    """How relevant a passage is to one subtopic of a question; 0 or less is not relevant."""

    question_id: str
    subtopic: str
    passage_id: str
    relevance: int


def load_qrels(path: str | Path) -> list[Judgement]:
    """Read all judgements of a file, refusing the same question, subtopic and passage twice."""
    judgements = [judgement for _, judgement in _read(Path(path))]
    if not judgements:
        raise FormatError(path, 0, "the file holds no judgement; was its download cut short?")
    return judgements


def _sniff(head: Head) -> bool:
    columns = first_columns(head)
    return len(columns) == 4 and is_whole(columns[3])


def _read(path: Path) -> Located[Judgement]:
    seen = set()
    for line, text in read_lines(path):
        if not (columns := columns_of(text)):
            continue
        if len(columns) != 4:
            raise FormatError(
                path,
                line,
                f"{len(columns)} columns instead of 4: question subtopic passage relevance",
            )
        question, subtopic, passage, relevance = columns
        if not is_whole(relevance):
            raise FormatError(
                path, line, f"the relevance should be a whole number, not {relevance!r:.40}"
            )
        if (question, subtopic, passage) in seen:
            raise FormatError(
                path,
                line,
                f"passage {passage!r} was judged before for subtopic {subtopic!r} of question "
                f"{question!r}; remove one",
            )
        seen.add((question, subtopic, passage))
        yield line, Judgement(question, subtopic, passage, int(relevance))


def write_qrels(judgements: Iterable[Judgement], stream: TextIO) -> None:
    """Write judgements, one line each."""
    for judgement in judgements:
        words = (judgement.question_id, judgement.subtopic, judgement.passage_id)
        for word in words:
            if not is_word(word):
                raise DataError(
                    f"{word!r} has white space or is empty, which qrels cannot hold; "
                    "give it another id"
                )
        stream.write(f"{' '.join(words)} {judgement.relevance}\n")


FORMAT = Format(
    "qrels",
    "diversity judgements: question subtopic passage relevance, separated by white space",
    _sniff,
    _read,
    write_qrels,
)
