from collections.abc import Iterator

import pytest

from jpr.errors import DataError
from jpr.formats.runs.align import Alignment, align, align_predictions, fill_texts
from jpr.types import Hit, Passage, Prediction, Question, Ranking

GOLD = [Question("1", "Who is it?", (("x",),)), Question("2", "Where?", (("y",),))]


def ranking(id: str, text: str, *passages: str) -> Ranking:
    return Ranking(Question(id, text), tuple(Hit(Passage(p, "", ""), 1.0) for p in passages))


def test_a_run_gets_the_order_and_the_answers_of_the_questions() -> None:
    aligned = align(GOLD, [ranking("2", "", "b"), ranking("9", "what", "c"), ranking("1", "", "a")])
    hits = (ranking("", "", "a").hits, ranking("", "", "b").hits)
    expected = (Ranking(GOLD[0], hits[0]), Ranking(GOLD[1], hits[1]))
    assert aligned == Alignment(expected, missing=(), unknown=("9",))


def test_a_question_that_is_missing_has_an_empty_ranking() -> None:
    aligned = align(GOLD, [ranking("2", "", "b")])
    assert (aligned.items[0], aligned.missing) == (Ranking(GOLD[0], ()), ("1",))


@pytest.mark.parametrize(
    "found", [ranking("who is it? ", "who is it? "), ranking("row 0", "WHO IS IT?")]
)
def test_an_id_that_is_unknown_is_found_by_its_text(found: Ranking) -> None:
    aligned = align(GOLD, [found, ranking("2", "where?")])
    assert (aligned.missing, aligned.unknown) == ((), ())


def test_a_text_that_two_questions_have_finds_neither() -> None:
    questions = [*GOLD, Question("3", "where?")]
    aligned = align(questions, [ranking("1", ""), ranking("x", "Where?")])
    assert (aligned.missing, aligned.unknown) == (("2", "3"), ("x",))


NUMBERED = [
    Question("1", "Who’s the king of café-land?"),
    Question("2", "Where is it?"),
    Question("3", "When was it built?"),
    Question("4", " "),
    Question("5", "Why?"),
]


@pytest.mark.parametrize(
    ("text", "differing"),
    [
        ("who 's the king of  CAFE LAND", ()),
        ("Who's the queen of café-land?", ("1",)),
        (" ", ()),
    ],
)
def test_a_text_that_differs_is_noted_beside_its_id(text: str, differing: tuple[str, ...]) -> None:
    others = [ranking("2", "where is it"), ranking("4", "of a question without a text")]
    aligned = align(NUMBERED, [ranking("1", text, "a"), *others])
    assert (aligned.differing, aligned.missing) == (differing, ("3", "5"))
    assert aligned.items[0] == Ranking(NUMBERED[0], ranking("", "", "a").hits)


def test_ids_that_number_other_questions_are_refused() -> None:
    other = [ranking("2", "How tall is she?"), ranking("3", "Which team won?")]
    half = [ranking("1", NUMBERED[0].text), ranking("5", "why")]
    assert align(NUMBERED, [*other, *half]).differing == ("2", "3")
    says = "texts differ for 2 of 3, e.g. 'How tall is she.' against 'Where is it.'; are they of"
    with pytest.raises(DataError, match=says):
        align(NUMBERED, [*other, half[0], ranking("4", "x"), ranking("5", ""), ranking("9", "y")])


def test_the_text_of_its_own_question_counts_before_a_closer_one_of_another() -> None:
    questions = [Question("1", "Who is it?"), Question("2", "who is it")]
    aligned = align(questions, [ranking("1", "who is it", "a")])
    assert (aligned.missing, aligned.differing) == (("2",), ())


@pytest.mark.parametrize(
    ("questions", "rankings", "says"),
    [
        (GOLD, [ranking("1", ""), ranking("a", "who is it?")], "question '1' comes twice"),
        (GOLD, [ranking("1", "where?")], "id '1' has the text of question '2'"),
        (GOLD, [ranking("1", "", "a", "b", "a")], "question '1': passage 'a' comes 2 times"),
        (GOLD, [ranking("7", "")], "ids like '1', '2', the rankings '7'; are they"),
        (GOLD, [], r"ids like '1', '2', the rankings \(there are none\)"),
        ([], [ranking("7", "")], r"ids like \(there are none\)"),
        ([*GOLD, GOLD[1]], [ranking("1", "")], "2 questions have the id '2'"),
    ],
)
def test_what_does_not_fit_is_said(
    questions: list[Question], rankings: list[Ranking], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        align(questions, rankings)


def test_predictions_are_found_by_id_or_by_text() -> None:
    given = [Prediction("where?", ("y",)), Prediction("1", ("x", "z")), Prediction("what", ())]
    aligned = align_predictions([*GOLD, Question("3", "When?")], given)
    assert aligned.items == (
        Prediction("1", ("x", "z")),
        Prediction("2", ("y",)),
        Prediction("3", ()),
    )
    assert (aligned.missing, aligned.unknown) == (("3",), ("what",))


def test_texts_are_filled_in_one_pass_that_ends_early() -> None:
    def corpus() -> Iterator[Passage]:
        yield Passage("z", "Z", "not needed")
        yield Passage("a", "A", "about a", {"url": "u", "has_answer": "?"})
        yield Passage("b", "B", "about b")
        raise AssertionError("read further than needed")

    kept = Hit(Passage("c", "", "has a text"), 1.0)
    marked = Hit(Passage("a", "", "", {"has_answer": True}), 3.0)
    run = [Ranking(GOLD[0], (marked, kept)), ranking("2", "", "b", "a")]
    first, second = fill_texts(run, corpus())
    assert first.hits[0] == Hit(Passage("a", "A", "about a", {"url": "u", "has_answer": True}), 3.0)
    assert first.hits[1] is kept
    assert [hit.passage.text for hit in second.hits] == ["about b", "about a"]


def test_passages_that_the_corpus_lacks_are_counted() -> None:
    run = [ranking("1", "", "a", "b", "c")]
    says = r"2 of 3 passages of the run are not in the corpus, e\.g\. 'b'"
    with pytest.raises(DataError, match=says):
        fill_texts(run, [Passage("a", "A", "x")])
