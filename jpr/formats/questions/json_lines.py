"""Question sets of one JSON object per question, as JSON lines or as an array.

- `jpr`, our own: `{"id", "question", "answers": [[alias, …], …]}`; `annotations` holds the answers
  of each annotator if there were several, `regex` a regular expression.
- AmbigNQ, light or full: `{"id", "question", "annotations": [{"type", …}]}`. `annotations` keeps
  each annotator's answers, for AmbigQA's F1 takes the best annotator; `answers`, which retrieval
  has to cover, is their union, in which answers that share a normalized alias are one.
- NQ-open and similar: `{"question", "answer": [alias, …]}`; a flat list is ONE answer, a list of
  lists holds distinct answers. The key is `answer` (NQ-open, EfficientQA, DrQA), `answers` (FiD,
  Atlas) or `golden_answers` (FlashRAG). Questions without an `id` are numbered from 0.
- WebQSP in simple form: `{"id", "question", "answers": [{"kb_id", "text"}]}` (GraftNet, NSM) or
  `{"id", "question", "answer": [name], "a_entity"}` (RoG); every item is a distinct answer. A null
  `text` falls back on `kb_id` unless that is a Freebase id.
- QAMPARI: `{"qid", "question_text", "answer_list": [{"answer_text", "aliases"}]}`.
- RAMDocs: `{"question", "gold_answers": [answer, …], "wrong_answers", "documents"}`; gold answers
  of one normalized form are one, the rest is ignored.
- KILT: `{"id", "input", "output": [{"answer", "provenance"}]}`; all outputs are ONE answer. An
  output may lack an answer, and a test file has no outputs.
"""

import re
from collections.abc import Iterable
from typing import TextIO

from jpr.formats.format import Format, Head, has_keys
from jpr.formats.gold import Aliases, Row, is_nested, json_line, merged, question_record, united
from jpr.formats.questions.rows import (
    from_json_lines,
    is_curatedtrec,
    looks_like_nqopen,
    nq_answers,
    only_answer,
)
from jpr.types import Question

_RANKED = ("ctxs", "contexts", "candidates", "passages", "positive_ctxs")
_FREEBASE_ID = re.compile(r"(<fb:|ns:|/)?[mg][./]\w+>?")


def _is_ranking(head: Head) -> bool:
    """Return whether the first record holds passages: the file is then a run."""
    return any(head.has(key) for key in _RANKED)


def _sniff_own(head: Head) -> bool:
    if not head.has("id", "question", "answers") or _is_ranking(head):
        return False
    answers = head.value["answers"]
    if not answers and head.has("entities"):
        return False  # a question of WebQSP without an answer
    return is_nested(answers) and is_nested(head.value.get("annotations") or [])


def _own(row: Row) -> Question:
    return Question(
        id=row.id("id"),
        text=row.text("question"),
        answers=row.at("answers").nested(),
        annotations=row.at("annotations").annotations() if row.has("annotations") else (),
        regex=row.optional_text("regex"),
    )


def _write_own(questions: Iterable[Question], stream: TextIO) -> None:
    for question in questions:
        stream.write(json_line(question_record(question)))


def _sniff_ambignq(head: Head) -> bool:
    if not head.has("id", "question", "annotations") or _is_ranking(head):
        return False
    annotations = head.value["annotations"]
    if not annotations and head.has("answers"):
        return False
    return isinstance(annotations, list) and all(
        isinstance(annotation, dict) and "type" in annotation for annotation in annotations
    )


def _ambignq(row: Row) -> Question:
    answers, annotations = united(row.at("annotations").annotations())
    return Question(row.id("id"), row.text("question"), answers, annotations)


def _sniff_nqopen(head: Head) -> bool:
    others = _sniff_own(head) or _sniff_simple(head) or head.has("annotations")
    return looks_like_nqopen(head) and not (others or _is_ranking(head) or is_curatedtrec(head))


def _nqopen(row: Row) -> Question:
    return Question(row.id_or_position("id"), row.text("question"), nq_answers(row).answers())


def _write_nqopen(questions: Iterable[Question], stream: TextIO) -> None:
    for question in questions:
        answer = only_answer(question, "nq-open")
        stream.write(json_line({"id": question.id, "question": question.text, "answer": answer}))


def _sniff_simple(head: Head) -> bool:
    if head.has("id", "question", "answer", "a_entity"):
        return True
    answers = head.value["answers"] if head.has("id", "question", "answers") else None
    if not isinstance(answers, list):
        return False
    if not answers:
        return head.has("entities")
    return all(isinstance(answer, dict) and "kb_id" in answer for answer in answers)


def _simple(row: Row) -> Question:
    if row.has("a_entity"):
        answers = row.at("answer").distinct()
    else:
        answers = tuple(filter(None, map(_entity, row.at("answers").each())))
    return Question(row.id("id"), row.text("question"), merged(answers))


def _entity(row: Row) -> Aliases:
    if row.has("text"):
        return row.at("text").aliases()
    known = row.at("kb_id").aliases()
    return tuple(name for name in known if not _FREEBASE_ID.fullmatch(name))


def _qampari(row: Row) -> Question:
    answers = []
    for item in row.at("answer_list").each():
        others = item.at("aliases").aliases() if item.has("aliases") else ()
        answers.append(tuple(dict.fromkeys((*item.at("answer_text").aliases(), *others))))
    return Question(row.id("qid"), row.text("question_text"), tuple(filter(None, answers)))


def _ramdocs(row: Row) -> Question:
    answers = merged(row.at("gold_answers").distinct())
    return Question(row.id_or_position("id"), row.text("question"), answers)


def _kilt(row: Row) -> Question:
    outputs = row.at("output").each() if row.has("output") else ()
    given = [output.at("answer").aliases() for output in outputs if output.has("answer")]
    aliases = tuple(dict.fromkeys(alias for each in given for alias in each))
    return Question(row.id("id"), row.text("input"), (aliases,) if aliases else ())


OWN = Format(
    "jpr",
    "our own questions: JSON lines with id, question, answers as lists of aliases",
    _sniff_own,
    from_json_lines(_own),
    _write_own,
)
AMBIGNQ = Format(
    "ambignq",
    "AmbigNQ, light or full: JSON with id, question and one annotation per annotator",
    _sniff_ambignq,
    from_json_lines(_ambignq),
)
NQOPEN = Format(
    "nq-open",
    "NQ-open, EfficientQA, FlashRAG: JSON lines with question and a list of the answer's aliases",
    _sniff_nqopen,
    from_json_lines(_nqopen),
    _write_nqopen,
)
WEBQSP_SIMPLE = Format(
    "webqsp-simple",
    "WebQSP of GraftNet, NSM or RoG: JSON lines with answers as {kb_id, text}, or answer names",
    _sniff_simple,
    from_json_lines(_simple),
)
QAMPARI = Format(
    "qampari",
    "QAMPARI: JSON lines with question_text and answer_list",
    has_keys("qid", "question_text", "answer_list"),
    from_json_lines(_qampari),
)
RAMDOCS = Format(
    "ramdocs",
    "RAMDocs: JSON lines with gold_answers beside wrong_answers",
    has_keys("question", "gold_answers"),
    from_json_lines(_ramdocs),
)
KILT = Format(
    "kilt",
    "KILT: JSON lines with input and output",
    has_keys("id", "input"),
    from_json_lines(_kilt),
)
FORMATS = (OWN, AMBIGNQ, NQOPEN, WEBQSP_SIMPLE, QAMPARI, RAMDOCS, KILT)
