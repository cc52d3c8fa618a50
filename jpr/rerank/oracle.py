"""The best choice there is, made by who knows the answers: how far a reranker could get.

No k candidates contain more distinct answers than those it returns (where the search of
`jpr.oracle` ends in time, which it does in practice). They come in the order in which each adds the
most; the score is how many answers a passage adds. Where fewer passages than k hold all that can
be found, the first stage's best fill the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from jpr.coverage import cover
from jpr.errors import DataError
from jpr.oracle import best_cover, greedy
from jpr.rerank.methods import NoSettings, RerankOptions
from jpr.rerank.order import Choice, checked, ranked
from jpr.types import Hit, Question, Ranking

_BATCH = 64
"""Questions whose coverage is computed together."""


class OracleReranker:
    """Chooses the candidates that together contain the most answers."""

    key = "oracle"

    def rank(self, question: Question, candidates: Sequence[Hit], k: int) -> Ranking:
        """Return k candidates, no other k of which contain more answers."""
        return next(self.rank_many([Ranking(question, tuple(candidates))], k))

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Do the same for the candidates of many questions."""
        checked(k)
        left = iter(rankings)
        while batch := list(islice(left, _BATCH)):
            for ranking in batch:
                check_answers(ranking.question)
            for ranking, choices in zip(batch, _choices(batch, k), strict=True):
                yield ranked(ranking.question, ranking.hits, choices)


def make(_: NoSettings, __: RerankOptions) -> OracleReranker:
    """Return the reranker."""
    return OracleReranker()


def check_answers(question: Question) -> None:
    """Refuse a question that no answer is known to."""
    if not question.answers and not question.regex:
        raise DataError(
            f"question {question.id!r} has no answers, which the oracle needs; "
            "give a file of questions that holds them"
        )


def _choices(rankings: Sequence[Ranking], k: int) -> Iterator[list[Choice]]:
    coverage = cover(rankings)
    best = best_cover(coverage, k).positions
    order = greedy(coverage.reorder(best), k, alpha=1.0)
    for ranking, places, taken, gains in zip(
        rankings, best, order.positions(), order.gains.tolist(), strict=True
    ):
        chosen = [(places[i], gain) for i, gain in zip(taken, gains, strict=False)]
        others = set(range(len(ranking.hits))) - {place for place, _ in chosen}
        yield [*chosen, *((place, 0.0) for place in sorted(others))][:k]
