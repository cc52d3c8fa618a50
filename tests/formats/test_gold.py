import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.errors import FormatError
from jpr.formats.gold import Answers, Row, json_rows, merged, united
from jpr.formats.questions import load_questions
from jpr.formats.runs import load_rankings
from jpr.text import normalize_answer


def row(value: object) -> Row:
    return Row(value, Path("gold.json"), 7, name="answers")


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        (["x", "y"], (("x", "y"),)),
        ([["x", "y"], ["z"]], (("x", "y"), ("z",))),
        ("x", (("x",),)),
        (["x", None, "", " ", "x", 1950, 0.5], (("x", "1950", "0.5"),)),
        ([["x"], [None], [" "], []], (("x",),)),
        ([], ()),
        ([None], ()),
        (None, ()),
    ],
)
def test_a_flat_list_is_one_answer_and_a_nested_one_several(
    value: object, answers: Answers
) -> None:
    assert row(value).answers() == answers


def test_every_item_of_a_list_may_be_an_answer_of_its_own() -> None:
    assert row(["x", ["y", 3], None, ""]).distinct() == (("x",), ("y", "3"))


PAIRS = {"type": "multipleQAs", "qaPairs": [{"answer": ["x", " "]}, {"answer": [""]}]}
SINGLE = {"type": "singleAnswer", "answer": ["x", "y"]}


def test_annotators_are_objects_of_ambignq_or_lists() -> None:
    nobody: list[object] = [[], [[" "]], {"type": "singleAnswer", "answer": None}]
    listed = row([PAIRS, SINGLE, [["x"], ["z", None]], *nobody])
    assert listed.annotations() == ((("x",),), (("x", "y"),), (("x",), ("z",)))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (["x", ["y"]], "'answers' mixes strings and lists; use a list per answer"),
        ([["x"], None], "'answers' mixes strings and lists"),
        ([[["x"]]], "an answer in 'answers' should be a string or a list of strings"),
        ({"x": 1}, "an answer in 'answers' should be a string"),
        ([True], "an answer in 'answers' should be a string"),
    ],
)
def test_what_is_no_answer_is_named(value: object, says: str) -> None:
    with pytest.raises(FormatError, match=f"gold.json:7: {says}"):
        row(value).answers()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "'answers' should be a list, not {}"),
        ([7], "a JSON object is expected, not a whole number"),
        ([["x"]], "each answer should be a list"),
        ([{"type": "noAnswer"}], "annotation of type 'noAnswer'; known are"),
        ([{"type": "singleAnswer"}], "key 'answer' is missing"),
        ([{"type": "multipleQAs", "qaPairs": [["x"]]}], "a JSON object is expected, not a list"),
        ([{"type": "singleAnswer", "answer": [["x"]]}], "an answer in 'answer' should be a string"),
    ],
)
def test_what_is_no_annotation_is_named(value: object, says: str) -> None:
    with pytest.raises(FormatError, match=f"gold.json:7: {says}"):
        row(value).annotations()


def test_a_run_and_its_questions_have_the_same_gold(tmp_path: Path) -> None:
    record = {"id": "1", "question": "?", "annotations": [PAIRS, SINGLE]}
    asked, ranked = tmp_path / "dev.json", tmp_path / "run.json"
    asked.write_text(json.dumps([record]))
    ranked.write_text(json.dumps([{**record, "answers": ["x", "y"], "ctxs": []}]))
    [question] = load_questions(asked)
    assert (question.answers, len(question.annotations)) == ((("x", "y"),), 2)
    assert load_rankings(ranked)[0].question == question


def test_records_know_their_line_and_position(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert list(json_rows(path)) == [Row({"a": 1}, path, 1, 0), Row({"a": 2}, path, 3, 1)]


aliases = st.lists(st.sampled_from(["a b", "b", "The B!", "c", "C", "d", "e f", "?!"]), min_size=1)
answer_lists = st.lists(aliases.map(lambda names: tuple(dict.fromkeys(names))), max_size=6)


def test_a_chain_of_shared_aliases_makes_one_answer() -> None:
    assert merged([("x",), ("y",), ("z",), ("The X", "Y!")]) == (("x", "y", "The X", "Y!"), ("z",))


def test_aliases_stand_in_the_order_of_their_first_appearance() -> None:
    assert merged([("x",), ("y",), ("x", "v"), ("v", "y")]) == (("x", "y", "v"),)


def test_answers_without_a_normal_form_are_distinguished() -> None:
    assert merged([("The The",), ("A",), ("!!!",)]) == (("The The",), ("A",), ("!!!",))


@given(answer_lists)
@settings(deadline=None)  # the machine may be busy
def test_merging_loses_no_alias_and_leaves_nothing_to_merge(answers: list[tuple[str, ...]]) -> None:
    result = merged(answers)
    assert sorted(name for each in result for name in each) == sorted(
        {name for each in answers for name in each}
    )
    assert merged(result) == result
    forms = [{normalize_answer(name) or name for name in each} for each in result]
    assert len(set().union(*forms)) == sum(map(len, forms))


def test_one_annotator_whose_answers_differ_needs_no_annotations() -> None:
    assert united([(("x",), ("y",))]) == ((("x",), ("y",)), ())


def test_one_annotator_who_repeats_an_answer_is_kept_as_he_is() -> None:
    twice = (("18",), ("18",), ("21",))
    assert united([twice]) == ((("18",), ("21",)), (twice,))


def test_annotators_are_kept_apart_and_united() -> None:
    first, second = (("x",),), (("X.", "ex"), ("y",))
    assert united([first, second, ()]) == ((("x", "X.", "ex"), ("y",)), (first, second))


def test_nothing_annotated_is_no_answer() -> None:
    assert united([(), ()]) == ((), ())
