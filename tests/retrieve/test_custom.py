from collections.abc import Iterator
from pathlib import Path

import pytest

from jpr.errors import DataError
from jpr.formats.runs import write_rankings
from jpr.retrieve.custom import FunctionRetriever, RunRetriever
from jpr.stages import Retriever
from jpr.types import Hit, Passage, Question, Ranking

HITS = tuple(Hit(Passage(str(i), f"Title {i}", f"text {i}"), 9.0 - i) for i in range(4))
FIRST = Question("1", "Who built the bridge?", (("Ada",),))
SECOND = Question("2", "Who climbed the tower?", (("Bo",),))
RUN = [Ranking(FIRST, HITS), Ranking(SECOND, HITS[2:])]


def test_a_function_is_a_retriever() -> None:
    def find(text: str, k: int) -> Iterator[Hit]:
        assert (text, k) == (FIRST.text, 2)
        yield from HITS

    retriever: Retriever = FunctionRetriever(find)
    assert retriever.retrieve(FIRST, 2) == Ranking(FIRST, HITS[:2])
    assert list(retriever.retrieve_many([FIRST], 2)) == [Ranking(FIRST, HITS[:2])]


def test_a_function_must_return_hits_and_each_passage_once() -> None:
    with pytest.raises(DataError, match=r"question '1': the function returned Passage.*jpr\.Hit"):
        FunctionRetriever(lambda text, k: [HITS[0].passage]).retrieve(FIRST, 5)  # type: ignore[list-item]  # that is the test
    with pytest.raises(DataError, match="comes 2 times"):
        FunctionRetriever(lambda text, k: [HITS[0], HITS[0]]).retrieve(FIRST, 5)


@pytest.mark.parametrize("format", ["ctxs", "trec"])
def test_a_run_file_is_a_retriever(tmp_path: Path, format: str) -> None:
    path = tmp_path / "run"
    with path.open("w", encoding="utf-8") as stream:
        write_rankings(RUN, stream, format)
    retriever: Retriever = RunRetriever.load(path)
    found = list(retriever.retrieve_many([SECOND, FIRST], 3))
    assert [ranking.question for ranking in found] == [SECOND, FIRST]
    assert [[hit.passage.id for hit in ranking.hits] for ranking in found] == [
        ["2", "3"],
        ["0", "1", "2"],
    ]


def test_a_run_is_joined_by_text_where_ids_are_others() -> None:
    asked = Question("q-17", "  who built the BRIDGE? ")
    assert RunRetriever(RUN).retrieve(asked, 9) == Ranking(asked, HITS)
    bare = [Ranking(Question(FIRST.text, ""), HITS)]  # the text stands where the id belongs
    assert RunRetriever(bare).retrieve(asked, 9).hits == HITS


def test_a_question_that_the_run_lacks_is_an_error() -> None:
    other = Question("3", "What else?")
    retriever = RunRetriever(RUN)
    with pytest.raises(DataError, match=r"no ranking for 1 of 2 questions, e\.g\. '3'"):
        retriever.retrieve_many([FIRST, other], 5)
    with pytest.raises(DataError, match="no ranking for 1 of 1"):
        retriever.retrieve(other, 5)
    assert list(retriever.retrieve_many([], 5)) == []


def test_ids_that_number_other_questions_are_noticed() -> None:
    with pytest.raises(DataError, match="texts differ"):
        RunRetriever(RUN).retrieve(Question("1", "What is the capital?"), 5)
    with pytest.raises(DataError, match="ids number other questions"):
        RunRetriever(RUN).retrieve_many([Question("2", FIRST.text), Question("4", SECOND.text)], 5)
    with pytest.raises(DataError, match="comes twice"):
        RunRetriever([RUN[0], Ranking(FIRST, HITS)]).retrieve(FIRST, 5)
