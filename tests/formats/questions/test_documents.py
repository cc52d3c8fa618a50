"""The formats that are one JSON document: QALD, ASQA, MultiSpanQA."""

import json
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.questions import load_questions
from jpr.types import Question

from .document_samples import BRIDGE, BRIDGE_ANSWERS

RESOURCE = "http://dbpedia.org/resource/"


def write(folder: Path, document: object) -> Path:
    path = folder / "document.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def qald(*bindings: object) -> dict[str, object]:
    wording = [{"language": "en", "string": "Who?"}]
    answers = [{"results": {"bindings": bindings}}]
    return {"questions": [{"id": "1", "question": wording, "answers": answers}]}


@pytest.mark.parametrize(
    ("kind", "value", "answers"),
    [
        ("uri", RESOURCE + "Ada_Quill", (("Ada Quill",),)),
        ("uri", RESOURCE + "Rope/Moat_%28Caf%C3%A9%29", (("Rope/Moat (Café)", "Rope/Moat"),)),
        ("uri", "http://dbpedia.org/ontology/Bridge", (("Bridge",),)),
        ("uri", "http://www.wikidata.org/entity/Q42", ()),
        ("literal", "Ada_Quill", (("Ada_Quill",),)),
        ("typed-literal", "1901-05-02", (("1901-05-02",),)),
        ("literal", 7, (("7",),)),
        ("literal", " ", ()),
    ],
)
def test_a_resource_answers_by_its_name(
    kind: str, value: object, answers: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    binding = {"x": {"type": kind, "value": value}}
    assert load_questions(write(tmp_path, qald(binding)))[0].answers == answers


def test_a_binding_answers_once_and_equal_names_are_one_answer(tmp_path: Path) -> None:
    ada = {"type": "uri", "value": RESOURCE + "Ada"}
    year = {"type": "literal", "value": "1901"}
    path = write(tmp_path, qald({"who": ada, "when": year}, {"who": ada}, {}))
    assert load_questions(path)[0].answers == (("Ada",),)


@pytest.mark.parametrize(
    ("answers", "meaning"),
    [([], ()), ([{"boolean": True}], (("yes",),)), ([{"results": {}}], ())],
)
def test_a_question_may_have_no_bindings(
    answers: list[object], meaning: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    document = qald()
    document["questions"][0]["answers"] = answers  # type: ignore[index]  # plain JSON
    assert load_questions(write(tmp_path, document))[0].answers == meaning


def test_a_question_without_english_is_named(tmp_path: Path) -> None:
    wording = [{"language": "de", "string": "Wer?"}]
    document = {"questions": [{"id": "1", "question": wording, "answers": []}]}
    with pytest.raises(FormatError, match=r"document.json: question 1: .*no wording in English"):
        load_questions(write(tmp_path, document))


def test_splits_of_asqa_are_never_mixed(tmp_path: Path) -> None:
    path = write(tmp_path, {"train": {"1": BRIDGE}, "dev": {"2": BRIDGE}})
    with pytest.raises(FormatError, match="holds train and dev; choose asqa-train"):
        load_questions(path)
    assert [question.id for question in load_questions(path, "asqa-train")] == ["1"]
    assert load_questions(path, "asqa-dev") == [
        Question("2", "Who made the bridge?", BRIDGE_ANSWERS)
    ]


def test_a_split_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, {"train": {"1": BRIDGE}})
    with pytest.raises(FormatError, match="holds train, not dev"):
        load_questions(path, "asqa-dev")


def test_pairs_of_asqa_with_one_answer_are_one_to_retrieve(tmp_path: Path) -> None:
    again = {**BRIDGE, "qa_pairs": [{"short_answers": ["x"]}, {"short_answers": ["X", "ex"]}]}
    [question] = load_questions(write(tmp_path, {"dev": {"1": again}}))
    assert question.answers == (("x", "X", "ex"),)
    assert question.annotations == ((("x",), ("X", "ex")),)


def multispan(labels: str, context: str = "a b c d") -> dict[str, object]:
    record = {"id": "1", "question": ["who", "?"], "context": context.split()}
    return {"data": [{**record, "label": labels.split()}]}


@pytest.mark.parametrize(
    ("labels", "answers"),
    [
        ("O O O O", ()),
        ("B I O B", (("a b",), ("d",))),
        ("B B I I", (("a",), ("b c d",))),
        ("O I I B", (("b c",), ("d",))),
    ],
)
def test_labels_cut_spans(
    labels: str, answers: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    assert load_questions(write(tmp_path, multispan(labels)))[0].answers == answers


def test_a_test_file_has_no_labels(tmp_path: Path) -> None:
    record = {"id": "1", "question": ["who", "?"], "context": ["a"]}
    assert load_questions(write(tmp_path, {"data": [record]})) == [Question("1", "who ?")]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ("B I", "question 1: 2 labels for 4 tokens"),
        ("B X O O", "question 1: label 'X'; known are B, I and O"),
    ],
)
def test_labels_that_do_not_fit_are_an_error(labels: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=says):
        load_questions(write(tmp_path, multispan(labels)))
