"""Diversification by vectors: passages near the question and far from each other.

Relevance is the inner product of question and passage. A *strategy* trades it against similarity
to the passages already chosen: `Mmr`, or one of the library pyversity (`Pyversity`). Unlike the
joint reranker, none of them knows what an answer is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.encode.encoder_folder import load_encoder
from jpr.errors import ConfigError, DataError, needs_extra
from jpr.rerank.methods import RerankOptions
from jpr.rerank.order import Choice, checked, ranked
from jpr.stages import Encoder, Reranker, batched
from jpr.types import Ranking

Vectors = NDArray[np.float32]

LIBRARY = ("dpp", "msd", "cover", "ssd")  # the strategies of pyversity except MMR
LAMBDA = 0.9  # the default weight of relevance: on development data, lower values lost answers
_BATCH = 8  # questions encoded together: enough to fill the encoder's batches


class Strategy(Protocol):
    """A rule that chooses passages by their vectors."""

    def choose(self, relevance: Vectors, vectors: Vectors, k: int) -> list[Choice]:
        """Return k passages, best first, given (n,) relevances and (n, d) vectors."""


@dataclass(frozen=True, slots=True)
class Mmr:
    """Maximal marginal relevance (Carbonell and Goldstein, 1998).

    Each step takes the passage with the largest λ·(q·p) − (1−λ)·max(0, largest p·p′), where p′ are
    those chosen before; ties go to the earlier candidate. A negative similarity counts as 0, so
    that scores never increase.

    >>> vectors = np.array([[1, 0], [1, 0], [0.6, 0.8]], dtype=np.float32)
    >>> chosen = Mmr(0.4).choose(vectors @ vectors[0], vectors, 2)
    >>> [place for place, _ in chosen]  # the second repeats the first
    [0, 2]
    """

    relevance: float = LAMBDA
    """λ: 1 is relevance alone, 0 is difference alone."""

    def __post_init__(self) -> None:
        _check(self.relevance)

    def choose(self, relevance: Vectors, vectors: Vectors, k: int) -> list[Choice]:
        """Return k passages by k greedy steps."""
        weighted = self.relevance * relevance.astype(np.float64)
        similarity = np.zeros(len(vectors))
        free = np.ones(len(vectors), dtype=np.bool_)
        chosen: list[Choice] = []
        for _ in range(min(k, len(vectors))):
            scores = np.where(free, weighted - (1 - self.relevance) * similarity, -np.inf)
            best = int(scores.argmax())
            chosen.append((best, float(scores[best])))
            free[best] = False
            similarity = np.maximum(similarity, inner(vectors, vectors[best]))
        return chosen


@dataclass(frozen=True, slots=True)
class Pyversity:
    """A strategy of pyversity, over unit vectors: needs the `diversify` extra.

    `dpp`: the set with the largest determinant of similarities weighted by relevance, greedily;
    `msd`: largest sum of distances; `cover`: similarity to all candidates, concave (facility
    location); `ssd`: what is left of a vector outside the span of those chosen.
    """

    name: str = "dpp"
    relevance: float = LAMBDA
    """λ: 1 is relevance alone, 0 is diversity alone; pyversity's `diversity` is 1 − λ."""

    def __post_init__(self) -> None:
        _check(self.relevance)
        if self.name not in LIBRARY:
            raise ConfigError(f"no strategy {self.name!r}; choose one of {', '.join(LIBRARY)}")

    def choose(self, relevance: Vectors, vectors: Vectors, k: int) -> list[Choice]:
        """Return k passages as pyversity chooses them."""
        with needs_extra(f"the diversifier {self.name!r}", "diversify"):
            from pyversity import diversify
        if self.relevance == 1:  # the library's order of equal ones is left to chance there
            return Mmr(1).choose(relevance, vectors, k)
        found = diversify(vectors, relevance, k, self.name, 1 - self.relevance)
        return list(zip(found.indices.tolist(), found.selection_scores.tolist(), strict=True))


def _check(relevance: float) -> None:
    if not 0 <= relevance <= 1:
        raise ConfigError(f"λ = {relevance}; it is between 0 (diversity) and 1 (relevance)")


def inner(vectors: Vectors, vector: Vectors) -> NDArray[np.float64]:
    """Return the inner product of each row with a vector, the same for the same row anywhere.

    A matrix product may sum the rows at its edges in another order, and split ties by chance.
    """
    found: NDArray[np.float64]
    found = np.einsum("nd,d->n", vectors.astype(np.float64), vector.astype(np.float64))
    return found


class DiverseReranker(Reranker):
    """Chooses candidates by the vectors of an encoder."""

    def __init__(self, encoder: Encoder, strategy: Strategy | None = None) -> None:
        """Choose by a strategy; without one, by `Mmr()`."""
        self._encoder, self._strategy = encoder, Mmr() if strategy is None else strategy
        self.key = f"{self._strategy!r} {encoder.key}"

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Return k candidates of each question; passages that questions share are encoded once."""
        checked(k)
        for batch in batched(rankings, _BATCH):
            questions = self._encoder.encode_questions([r.question.text for r in batch])
            passages = [hit.passage for ranking in batch for hit in ranking.hits]
            distinct = {(passage.title, passage.text): passage for passage in passages}
            row_of = {texts: row for row, texts in enumerate(distinct)}
            encoded = self._encoder.encode_passages(list(distinct.values()))
            if not (np.isfinite(questions).all() and np.isfinite(encoded).all()):
                raise DataError("the encoder returned a vector with NaN; check its weights")
            for ranking, question in zip(batch, questions, strict=True):
                own = [row_of[hit.passage.title, hit.passage.text] for hit in ranking.hits]
                vectors = encoded[own]
                relevance = inner(vectors, question).astype(np.float32)
                chosen = self._strategy.choose(relevance, vectors, k)
                yield ranked(ranking.question, ranking.hits, chosen)


@dataclass(frozen=True, slots=True)
class DiversifySettings:
    """The settings of `jpr rerank --method mmr`, and of the other strategies."""

    lambda_: float = LAMBDA
    """How much relevance counts: 1 is relevance alone, 0 is diversity alone."""
    encoder: Path | None = None
    """Folder of an encoder; None is the bundled one."""

    def __post_init__(self) -> None:
        _check(self.lambda_)


def make(settings: DiversifySettings, options: RerankOptions) -> DiverseReranker:
    """Return MMR, or the strategy that pyversity knows by the method's name."""
    weight = settings.lambda_
    strategy = Mmr(weight) if options.method == "mmr" else Pyversity(options.method, weight)
    return DiverseReranker(load_encoder(settings.encoder, threads=options.threads), strategy)
