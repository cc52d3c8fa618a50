"""AmbigPrompt's data: a question, every annotator's answers, and the ids of its passages.

`{"question", "answers": [annotator][answer][alias], "passages": [id, …]}`. There are no texts:
`jpr.formats.runs.texts.fill_texts` takes them from the corpus.
"""

from dataclasses import replace
from pathlib import Path

from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_rows
from jpr.formats.runs.fields import hits_of, minus_rank
from jpr.formats.runs.question import has_entities, question_of
from jpr.types import Hit, Passage, Ranking


def _sniff(head: Head) -> bool:
    listed = head.value["passages"] if head.has("question", "answers", "passages") else None
    return (
        isinstance(listed, list)
        and bool(listed)
        and not head.has("ctxs")
        and not has_entities(head)
        and all(isinstance(item, int | str) for item in listed)
    )


def _read(path: Path) -> Located[Ranking]:
    for row in json_rows(path):
        yield row.line, Ranking(question_of(row), hits_of(row.at("passages"), _hit))


def _hit(row: Row) -> Hit:
    return Hit(Passage(replace(row, name="id").as_id(), "", ""), minus_rank(row))


FORMAT = Format(
    "ambigprompt",
    "AmbigPrompt's data: JSON with question, answers per annotator, ids of passages",
    _sniff,
    _read,
)
