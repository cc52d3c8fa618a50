"""The oracle reranker, which knows the answers: the upper bound for any reranker.

No k candidates contain more distinct answers than those it returns (if the search of `jpr.oracle`
ends within its limit, which it does in practice). Each passage adds the most to those before it;
its score is the number of answers it adds. If fewer than k passages contain everything, the first
of the other candidates fill the rest.
"""

from collections.abc import Iterable, Iterator

from jpr.coverage import cover
from jpr.errors import DataError
from jpr.oracle import best_cover, greedy
from jpr.rerank.methods import NoSettings, RerankOptions
from jpr.rerank.order import checked, ranked
from jpr.stages import Reranker, batched
from jpr.types import Question, Ranking

_BATCH = 64  # questions per batch of coverage


class OracleReranker(Reranker):
    """Chooses the candidates that together contain the most answers."""

    key = "oracle"

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Return k candidates of each question, no other k of which contain more answers."""
        checked(k)
        for batch in batched(rankings, _BATCH):
            for ranking in batch:
                check_answers(ranking.question)
            coverage = cover(batch)
            best = best_cover(coverage, k).positions
            order = greedy(coverage.reorder(best), k, alpha=1.0)
            for ranking, places, taken, gains in zip(
                batch, best, order.positions(), order.gains.tolist(), strict=True
            ):
                chosen = [(places[i], gain) for i, gain in zip(taken, gains, strict=False)]
                others = set(range(len(ranking.hits))) - {place for place, _ in chosen}
                chosen += [(place, 0.0) for place in sorted(others)]
                yield ranked(ranking.question, ranking.hits, chosen[:k])


def make(_: NoSettings, __: RerankOptions) -> OracleReranker:
    """Return the reranker."""
    return OracleReranker()


def check_answers(question: Question) -> None:
    """Reject a question without gold answers."""
    if not question.answers and not question.regex:
        raise DataError(
            f"question {question.id!r} has no answers, which the oracle needs; "
            "give a file of questions that holds them"
        )
