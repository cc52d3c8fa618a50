"""Question sets of one JSON object per question, as lines or as an array (docs/formats.md).

`annotations` keeps each annotator's answers, for AmbigQA's F1 takes the best annotator; `answers`,
which retrieval has to cover, is their union. A flat list is ONE answer's aliases, except in WebQSP
and RAMDocs. Questions without an `id` are numbered from 0.
"""

import re

from jpr.errors import ConfigError
from jpr.formats import gold
from jpr.formats.format import Head, is_record
from jpr.formats.gold import Aliases, Row, json_format, json_writer, merged, united
from jpr.types import Question

_RANKED = ("ctxs", "contexts", "candidates", "passages", "positive_ctxs")
"""Keys of a list of passages: a file that has one is a run."""
_NQ_ANSWERS = ("answers", "golden_answers", "answer")
_FREEBASE_ID = re.compile(r"(<fb:|ns:|/)?[mg][./]\w+>?")


def _sniff_own(head: Head) -> bool:
    if not head.has("id", "question", "answers") or head.has_any(*_RANKED):
        return False
    answers = head.value["answers"]
    if not answers and head.has("entities"):
        return False  # a question of WebQSP without an answer
    return gold.is_nested(answers) and gold.is_nested(head.value.get("annotations") or [])


@json_format("jpr", _sniff_own, json_writer(gold.question_record))
def _own(row: Row) -> Question:
    """our own questions: JSON lines with id, question, answers as lists of aliases."""
    answers, regex = row.at("answers").nested(), row.optional_text("regex")
    annotations = row.at("annotations").annotations() if row.has("annotations") else ()
    return Question(row.id("id"), row.text("question"), answers, annotations, regex)


def _sniff_ambignq(head: Head) -> bool:
    if not head.has("id", "question", annotations=list) or head.has_any(*_RANKED):
        return False
    annotations = head.value["annotations"]
    unannotated = not annotations and head.has("answers")
    return not unannotated and all(is_record(item, "type") for item in annotations)


@json_format("ambignq", _sniff_ambignq)
def _ambignq(row: Row) -> Question:
    """AmbigNQ, light or full: JSON with id, question and one annotation per annotator."""
    answers, annotations = united(row.at("annotations").annotations())
    return Question(row.id("id"), row.text("question"), answers, annotations)


def looks_like_nqopen(head: Head) -> bool:
    """Return whether the first record has a question, and strings or lists of them as answers."""
    if not head.has(question=str):
        return False
    answers = next((head.value[key] for key in _NQ_ANSWERS if head.has(key)), None)
    listed = answers if isinstance(answers, list) else [answers]
    flat = [alias for item in listed for alias in (item if isinstance(item, list) else [item])]
    return answers is not None and all(isinstance(alias, str) for alias in flat)


def nq_answers(row: Row) -> Row:
    """Return the answers of a record like NQ-open's, under whichever key they are."""
    return row.first(_NQ_ANSWERS) or row.at("answer")


def is_curatedtrec(head: Head) -> bool:
    """Return whether a file's name says that it has expressions in place of answers."""
    return "curatedtrec" in re.sub("[-_]", "", head.path.name.lower())


def only_answer(question: Question, format: str) -> Aliases:
    """Return the aliases of the one answer that a format can hold, or explain why it cannot."""
    count = len(question.answers)
    if question.regex or count > 1:
        kind = "a regular expression" if question.regex else f"{count} distinct answers"
        problem = f"question {question.id!r} has {kind}; format {format!r} holds one answer"
        raise ConfigError(f"{problem}; write format 'jpr'")
    return question.answers[0] if count else ()


def _sniff_nqopen(head: Head) -> bool:
    if head.has_any("annotations", *_RANKED) or is_curatedtrec(head):
        return False
    return looks_like_nqopen(head) and not (_sniff_own(head) or _sniff_simple(head))


def _nq_open_record(question: Question) -> dict[str, object]:
    answer = only_answer(question, "nq-open")
    return {"id": question.id, "question": question.text, "answer": answer}


@json_format("nq-open", _sniff_nqopen, json_writer(_nq_open_record))
def _nq_open(row: Row) -> Question:
    """NQ-open, EfficientQA, FlashRAG: JSON lines with question and a list of aliases."""
    return Question(row.id_or_position("id"), row.text("question"), nq_answers(row).answers())


def _sniff_simple(head: Head) -> bool:
    if head.has("id", "question", "answer", "a_entity"):
        return True
    if not head.has("id", "question", answers=list):
        return False
    answers = head.value["answers"]
    return all(is_record(one, "kb_id") for one in answers) if answers else head.has("entities")


@json_format("webqsp-simple", _sniff_simple)
def _webqsp_simple(row: Row) -> Question:
    """WebQSP of GraftNet, NSM or RoG: JSON lines with answers as {kb_id, text}, or answer names."""
    named = row.has("a_entity")
    answers = row.at("answer").distinct() if named else map(_entity, row.at("answers").each())
    return Question(row.id("id"), row.text("question"), merged(answers))


def _entity(row: Row) -> Aliases:
    if row.has("text"):
        return row.at("text").aliases()
    known = row.at("kb_id").aliases()
    return tuple(name for name in known if not _FREEBASE_ID.fullmatch(name))


@json_format("qampari", lambda head: head.has("qid", "question_text", "answer_list"))
def _qampari(row: Row) -> Question:
    """QAMPARI: JSON lines with question_text and answer_list."""
    answers = []
    for item in row.at("answer_list").each():
        others = item.at("aliases").aliases() if item.has("aliases") else ()
        answers.append(tuple(dict.fromkeys((*item.at("answer_text").aliases(), *others))))
    return Question(row.id("qid"), row.text("question_text"), gold.kept(answers))


@json_format("ramdocs", lambda head: head.has("question", "gold_answers"))
def _ramdocs(row: Row) -> Question:
    """RAMDocs: JSON lines with gold_answers beside wrong_answers."""
    answers = merged(row.at("gold_answers").distinct())
    return Question(row.id_or_position("id"), row.text("question"), answers)


@json_format("kilt", lambda head: head.has("id", "input"))
def _kilt(row: Row) -> Question:
    """KILT: JSON lines with input and output."""
    outputs = row.at("output").each() if row.has("output") else ()
    given = [output.at("answer").aliases() for output in outputs if output.has("answer")]
    aliases = tuple(dict.fromkeys(alias for each in given for alias in each))
    return Question(row.id("id"), row.text("input"), (aliases,) if aliases else ())


FORMATS = (_own, _ambignq, _nq_open, _webqsp_simple, _qampari, _ramdocs, _kilt)
