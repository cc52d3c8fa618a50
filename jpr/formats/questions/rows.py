"""From the rows of a file to questions, and what several question formats share."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

from jpr.errors import ConfigError
from jpr.formats.format import Head, Located
from jpr.formats.gold import Aliases, Row, json_documents, json_rows
from jpr.io.text_files import read_lines
from jpr.types import Question

ReadQuestions = Callable[[Path], Located[Question]]
_NQ_ANSWERS = ("answers", "golden_answers", "answer")


def from_json_lines(question_of: Callable[[Row], Question]) -> ReadQuestions:
    """Make a reader of JSON lines or of a JSON array."""

    def read(path: Path) -> Located[Question]:
        return read_rows(json_rows(path), question_of)

    return read


def from_json_document(key: str, question_of: Callable[[Row], Question]) -> ReadQuestions:
    """Make a reader of one JSON document that lists its questions under a key."""

    def read(path: Path) -> Located[Question]:
        for document in json_documents(path):
            yield from read_rows(document.at(key).each(), question_of)

    return read


def line_rows(path: Path) -> Iterator[Row]:
    """Yield the lines of a file that are not blank."""
    lines = (located for located in read_lines(path) if located[1].strip())
    for position, (number, line) in enumerate(lines):
        yield Row(line, path, number, position)


def read_rows(rows: Iterable[Row], question_of: Callable[[Row], Question]) -> Located[Question]:
    """Yield a question per row; errors name one without a line by its number from 1."""
    for row in rows:
        with nullcontext() if row.line else row.within(f"question {row.position + 1}"):
            question = question_of(row)
        yield row.line, question


def looks_like_nqopen(head: Head) -> bool:
    """Return whether the first record has a question, and strings or lists of them as answers."""
    if not head.has("question") or not isinstance(head.value["question"], str):
        return False
    answers = next((head.value[key] for key in _NQ_ANSWERS if head.has(key)), None)
    listed = answers if isinstance(answers, list) else [answers]
    flat = [alias for item in listed for alias in (item if isinstance(item, list) else [item])]
    return answers is not None and all(isinstance(alias, str) for alias in flat)


def nq_answers(row: Row) -> Row:
    """Return the answers of a record like NQ-open's, under whichever key they are."""
    return row.at(row.first(_NQ_ANSWERS) or "answer")


def is_curatedtrec(head: Head) -> bool:
    """Return whether a file's name says that it has expressions in place of answers."""
    name = head.path.name.lower().replace("-", "").replace("_", "")
    return "curatedtrec" in name


def only_answer(question: Question, format: str) -> Aliases:
    """Return the aliases of the one answer that a format can hold, or explain why it cannot."""
    if question.regex:
        raise ConfigError(
            f"question {question.id!r} is answered by an expression, which format {format!r} "
            "cannot hold; write format 'jpr'"
        )
    if len(question.answers) > 1:
        raise ConfigError(
            f"question {question.id!r} has {len(question.answers)} distinct answers, "
            f"format {format!r} holds one; write format 'jpr'"
        )
    return question.answers[0] if question.answers else ()
