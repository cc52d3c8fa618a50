"""Candidates for tests of rerankers, invented."""

from collections.abc import Sequence

from jpr.types import Hit, Passage, Question, Ranking

QUESTION = Question("q", "which colours?", (("red",), ("blue",), ("green",)))


def candidates(*texts: str) -> list[Hit]:
    """Passages of these texts, each with metadata and a first-stage score."""
    return [
        Hit(Passage(f"p{i}", f"title {i}", text, {"row": i}), 9.0 - i)
        for i, text in enumerate(texts)
    ]


def ids(ranking: Ranking) -> list[str]:
    return [hit.passage.id for hit in ranking.hits]


def check_choice(ranking: Ranking, question: Question, given: Sequence[Hit], k: int) -> None:
    """What holds for every reranker: k of the candidates, untouched, by falling scores."""
    assert ranking.question is question
    assert len(ranking.hits) == min(k, len(given))
    passages = {hit.passage.id: hit.passage for hit in given}
    assert all(hit.passage is passages[hit.passage.id] for hit in ranking.hits)
    assert len(set(ids(ranking))) == len(ranking.hits)
    scores = [hit.score for hit in ranking.hits]
    assert scores == sorted(set(scores), reverse=True)
