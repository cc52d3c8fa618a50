"""Documents for the tiny model, and what it chooses of them without any adapter."""

import threading
from collections.abc import Iterable, Iterator

import pytest

from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from jpr.types import Ranking
from tests.rerank.tiny import NAMES, QUESTION, ranking

QUERY = QUESTION.text
TEXTS = [f"{name} which {name}" for name in NAMES]
METAS: list[dict[str, object]] = [{"title": name, "page": i} for i, name in enumerate(NAMES)]


def expected(joint: JointReranker, k: int) -> list[tuple[str, object]]:
    """Titles and scores of the model's own choice of k; scores are compared nearly."""
    chosen = joint.rank(QUESTION, ranking().hits, k).hits
    return [(hit.passage.title, pytest.approx(hit.score)) for hit in chosen]


class ThreadNoted(FirstStageOrder):
    """The first stage's order, and the threads in which it was asked for."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        self.threads.add(threading.get_ident())
        return super().rank_many(rankings, k)

    @property
    def left_the_callers(self) -> bool:
        return bool(self.threads) and threading.get_ident() not in self.threads
