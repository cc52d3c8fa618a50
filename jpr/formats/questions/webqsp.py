"""WebQSP as published (`Questions`, `Parses`) and in the simpler forms graph readers use.

Published: an entity answers by its name, a value by itself; an entity without a name is dropped,
for no passage contains its Freebase id. The official F1 takes the best parse, as AmbigQA's takes
the best annotator, so the rule is the same: `annotations` keeps each parse's answers, `answers`
is the union over all parses in which answers of one normalised name are one. All parses count,
good or not, as in the official script. A question without an answer stays, with `answers` empty.

Simple: `{"id", "question", "answers": [{"kb_id", "text"}]}` (GraftNet, NSM) or
`{"id", "question", "answer": [name], "a_entity"}` (RoG); every item is a distinct answer. A `text`
that is null falls back on `kb_id` unless that is a Freebase id.
"""

import re

from jpr.formats.format import Format, Head
from jpr.formats.gold import Aliases, Answers, Row, merged, united
from jpr.formats.questions.rows import from_document, from_lines
from jpr.types import Question

_FREEBASE_ID = re.compile(r"(<fb:|ns:|/)?[mg][./]\w+>?")


def _sniff(head: Head) -> bool:
    return head.has("Questions")


def _question(row: Row) -> Question:
    answers, annotations = united(map(_parse, row.at("Parses").each()))
    return Question(row.id("QuestionId"), row.text("RawQuestion"), answers, annotations)


def _parse(row: Row) -> Answers:
    return merged(filter(None, map(_argument, row.at("Answers").each())))


def _argument(row: Row) -> Aliases:
    kind = row.text("AnswerType")
    if kind not in ("Entity", "Value"):
        raise row.error(f"answer of type {kind!r}; known are Entity and Value")
    return row.at("EntityName" if kind == "Entity" else "AnswerArgument").aliases()


def _sniff_simple(head: Head) -> bool:
    if head.has("id", "question", "answer", "a_entity"):
        return True
    answers = head.value["answers"] if head.has("id", "question", "answers") else None
    if not isinstance(answers, list):
        return False
    if not answers:
        return head.has("entities")
    return all(isinstance(answer, dict) and "kb_id" in answer for answer in answers)


def _simple_question(row: Row) -> Question:
    if row.has("a_entity"):
        answers = row.at("answer").distinct()
    else:
        answers = tuple(filter(None, map(_simple_answer, row.at("answers").each())))
    return Question(row.id("id"), row.text("question"), merged(answers))


def _simple_answer(row: Row) -> Aliases:
    if row.has("text"):
        return row.at("text").aliases()
    known = row.at("kb_id").aliases()
    return tuple(name for name in known if not _FREEBASE_ID.fullmatch(name))


PUBLISHED = Format(
    "webqsp",
    "WebQSP as published: one JSON document with Questions and their Parses",
    _sniff,
    from_document("Questions", _question),
)
SIMPLE = Format(
    "webqsp-simple",
    "WebQSP of GraftNet, NSM or RoG: JSON lines with answers as {kb_id, text}, or answer names",
    _sniff_simple,
    from_lines(_simple_question),
)
FORMATS = (PUBLISHED, SIMPLE)
