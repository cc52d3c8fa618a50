import json
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.questions import load_questions

ENTITY, VALUE = "Entity", "Value"


def answer(kind: str, argument: str, name: str | None = None) -> dict[str, object]:
    return {"AnswerType": kind, "AnswerArgument": argument, "EntityName": name}


def write(folder: Path, *parses: list[dict[str, object]]) -> Path:
    path = folder / "WebQSP.train.json"
    question = {
        "QuestionId": "WebQTrn-1",
        "RawQuestion": "who made it?",
        "Parses": [{"Answers": answers} for answers in parses],
    }
    path.write_text(json.dumps({"Questions": [question]}), encoding="utf-8-sig")
    return path


def test_parses_stay_apart_and_their_answers_unite(tmp_path: Path) -> None:
    ada, bo = answer(ENTITY, "m.1", "Ada Quill"), answer(ENTITY, "m.2", "Bo Reed")
    year = answer(VALUE, "1901")
    [question] = load_questions(write(tmp_path, [ada], [bo, ada, year]))
    assert question.answers == (("Ada Quill",), ("Bo Reed",), ("1901",))
    assert question.annotations == (
        (("Ada Quill",),),
        (("Bo Reed",), ("Ada Quill",), ("1901",)),
    )


def test_entities_of_one_name_are_one_answer(tmp_path: Path) -> None:
    twins = [answer(ENTITY, "m.1", "Ada Quill"), answer(ENTITY, "m.2", "Ada Quill")]
    [question] = load_questions(write(tmp_path, twins))
    assert question.answers == (("Ada Quill",),)


def test_a_question_without_an_answer_is_kept(tmp_path: Path) -> None:
    [question] = load_questions(write(tmp_path, [], [answer(ENTITY, "m.1")]))
    assert question.answers == ()
    assert question.annotations == ()


def test_a_broken_answer_is_named_by_its_question(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"train.json: question 1: answer of type 'Set'; known"):
        load_questions(write(tmp_path, [answer("Set", "m.1")]))


@pytest.mark.parametrize(
    ("kb_id", "answers"),
    [("m.0gx_1", ()), ("g.11b", ()), ("/m/0gx1", ()), ("ns:m.1", ()), ("2009-01", (("2009-01",),))],
)
def test_an_id_of_freebase_is_no_answer(
    kb_id: str, answers: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    path = tmp_path / "simple.jsonl"
    record = {"id": "1", "question": "?", "answers": [{"kb_id": kb_id, "text": None}]}
    path.write_text(json.dumps(record), encoding="utf-8")
    assert load_questions(path)[0].answers == answers
