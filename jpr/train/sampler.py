"""Which questions and candidates a training step sees: drawn from packs, by seed and step alone.

Every question of a pack comes once before any comes again. How a batch is later cut into parts, for
processes and micro-batches, changes nothing of what is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError
from jpr.train.dynamic_oracle import Bits, Flags, Real, Whole, subsample, useful
from jpr.train.pack import Pack


@dataclass(frozen=True, slots=True, eq=False)
class CandidateBatch:
    """The candidates of several questions of one pack, padded, in the first stage's order."""

    questions: Whole
    """(Q,) their numbers in the pack."""
    edges: Whole
    """(Q, C) which of the pack's candidates, -1 where a question has fewer."""
    covers: Bits
    """(Q, C, B) the answers each contains, as bits; see `jpr.train.dynamic_oracle`."""

    @property
    def inside(self) -> Flags:
        """Which candidates there are (Q, C)."""
        return self.edges >= 0

    def at(self, places: Whole) -> "CandidateBatch":
        """Return some of the candidates, by their places (Q, n), -1 for none."""
        edges = np.take_along_axis(self.edges, places, axis=1)
        covers = np.take_along_axis(self.covers, places[..., None], axis=1)
        there = places >= 0
        return CandidateBatch(self.questions, np.where(there, edges, -1), covers * there[..., None])

    def with_random_negatives(self, edges: Whole, where: Flags) -> "CandidateBatch":
        """Return candidates of other questions (Q, C) in place of some that contain no answer."""
        replaced = where & self.inside & ~useful(self.covers)
        return CandidateBatch(self.questions, np.where(replaced, edges, self.edges), self.covers)

    def rows(self, which: Whole) -> "CandidateBatch":
        """Return some of the questions."""
        return CandidateBatch(self.questions[which], self.edges[which], self.covers[which])

    def values(self, of_edges: NDArray[np.floating]) -> Real:
        """Return what a file says of each candidate (Q, C); 0 where there is none."""
        found: Real = of_edges[np.maximum(self.edges, 0)].astype(np.float64)
        return np.where(self.inside, found, 0.0)


class Dataset:
    """A pack to train on, with its share of every batch."""

    def __init__(
        self,
        pack: Pack,
        weight: float = 1.0,
        scores: NDArray[np.floating] | None = None,
        sources: Sequence[str] = (),
    ) -> None:
        """Take IndepPR's scores s(p), one per candidate of the pack.

        With `sources`, only the questions of these files are drawn.
        """
        if scores is not None and scores.shape != pack.candidates.shape:
            raise DataError(
                f"{scores.shape} scores for {len(pack.candidates)} candidates of a pack; "
                "were they made for another?"
            )
        self.pack, self.weight, self.scores = pack, weight, scores
        self.cover_starts = np.searchsorted(pack.cover_edges, pack.candidate_starts)
        own = np.isin(pack.sources, [_source(pack, name) for name in sources])
        self.usable = np.flatnonzero(np.diff(self.cover_starts) * (own | (not sources)))
        """The questions to draw, to one of whose candidates there is an answer."""
        self.longest = int(np.diff(pack.candidate_starts).max(initial=0))

    def listed(self, questions: Whole, longest: int) -> CandidateBatch:
        """Return all candidates of these questions, padded to `longest`."""
        starts = self.pack.candidate_starts
        first, counts = starts[questions], np.diff(starts)[questions]
        place = np.arange(longest)
        edges = np.where(place < counts[:, None], first[:, None] + place, -1)
        return CandidateBatch(questions, edges, self._covers(questions, first, longest))

    def prior_of(self, listed: CandidateBatch) -> Real:
        """Return s(p) (Q, C): IndepPR's, or −log of the first stage's rank where there is none.

        Other questions' candidates are as good as the worst of a question's own.
        """
        first, after = (self.pack.candidate_starts[listed.questions + i][:, None] for i in (0, 1))
        own = (listed.edges >= first) & (listed.edges < after)
        if self.scores is not None:
            found = listed.values(self.scores)
        else:
            found = -np.log1p(np.where(own, listed.edges - first, 0).astype(np.float64))
        worst = np.where(own, found, np.inf).min(axis=1, keepdims=True)
        return np.where(own, found, np.where(listed.inside, worst, 0.0))

    def _covers(self, questions: Whole, first: Whole, longest: int) -> Bits:
        counts = np.diff(self.cover_starts)[questions]
        row = np.repeat(np.arange(len(questions)), counts)
        within = np.arange(len(row)) - np.repeat(counts.cumsum() - counts, counts)
        entries = self.cover_starts[questions][row] + within
        place = self.pack.cover_edges[entries].astype(np.int64) - first[row]
        # Answers are numbered anew among those that some candidate contains: there may be thousands
        # that none does.
        keys = row << 16 | self.pack.cover_answers[entries]
        known, which = np.unique(keys, return_inverse=True)
        bit = which - np.searchsorted(known, row << 16)
        found = np.zeros((len(questions), longest, int(bit.max(initial=0)) + 1), dtype=np.bool_)
        found[row, place, bit] = True
        return np.packbits(found, axis=-1)


def _source(pack: Pack, name: str) -> int:
    names: Sequence[str] = pack.about["sources"]
    if name not in names:
        raise DataError(f"a pack has no source {name!r}; it has {', '.join(names)}")
    return names.index(name)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Questions of one feed, each with the candidates it is trained on and noise of its own."""

    feed: Dataset
    listed: CandidateBatch
    numbers: Whole
    """(Q, C) random numbers that the index head knows the candidates by, all different."""
    noise: tuple[Real, Real]
    """(Q, C) twice."""


class Sampler:
    """Batches without end, drawn from feeds by weight."""

    def __init__(
        self,
        feeds: Sequence[Dataset],
        *,
        batch: int,
        candidates: int,
        k: int,
        seed: int,
        strangers: float = 0.0,
    ) -> None:
        """Draw `candidates` of each question's, all if that is 0.

        A share of those without an answer are replaced by other questions': `strangers`.
        """
        if any(not len(feed.usable) for feed in feeds):
            raise DataError("a pack has no question with an answer among its candidates")
        if batch < len(feeds) * (len(feeds) - 1):
            raise ConfigError(f"batches of {batch} questions cannot mix {len(feeds)} packs")
        self._feeds = sorted(feeds, key=lambda feed: feed.weight)
        self._batch, self._k, self._seed, self._strangers = batch, k, seed, strangers
        self._longest = max(feed.longest for feed in feeds)
        self._n = min(candidates or self._longest, self._longest)

    def part(self, step: int, part: int, parts: int, n_numbers: int) -> list[Sample]:
        """Return every `parts`-th question of a step's batch, by feed."""
        chance = np.random.default_rng([self._seed, step])
        noise = chance.random((3, self._batch, self._longest))
        numbers = chance.random((self._batch, max(n_numbers, self._n))).argsort(axis=1)
        slots = chance.permutation(self._batch)[part::parts]
        others = chance.random((2, self._batch, self._n))
        found, before = [], 0
        for at, questions in enumerate(self._questions(step)):
            own = slots[(slots >= before) & (slots < before + len(questions))]
            if len(own):
                of_feed = self._feeds[at], questions[own - before]
                drawn = self._drawn(*of_feed, noise[:, own], others[:, own], numbers[own])
                found.append(drawn)
            before += len(questions)
        return found

    def _drawn(
        self, feed: Dataset, questions: Whole, noise: Real, others: Real, numbers: Whole
    ) -> Sample:
        whole = feed.listed(questions, self._longest)
        places = subsample(whole.covers, whole.inside, self._n, self._k, noise[0])
        narrow = noise[1:, :, : self._n]
        edges = (others[0] * len(feed.pack.candidates)).astype(np.int64)
        listed = whole.at(places).with_random_negatives(edges, others[1] < self._strangers)
        return Sample(feed, listed, numbers[:, : self._n], (narrow[0], narrow[1]))

    def _questions(self, step: int) -> list[Whole]:
        """Return the questions of a step's batch, feed by feed; the largest takes the rest."""
        total = sum(feed.weight for feed in self._feeds)
        rates = [self._batch * feed.weight / total for feed in self._feeds[:-1]]
        bounds = [[int(at * rate) for rate in rates] for at in (step, step + 1)]
        for at, bound in zip((step, step + 1), bounds, strict=True):
            bound.append(at * self._batch - sum(bound))
        return [
            self._visited(at, first, last)
            for at, (first, last) in enumerate(zip(*bounds, strict=True))
        ]

    def _visited(self, at: int, first: int, last: int) -> Whole:
        """Return the questions of a feed from its first-th visit to its last-th."""
        usable = self._feeds[at].usable
        round, place = np.divmod(np.arange(first, last), len(usable))
        orders = [_order(self._seed, at, int(one), len(usable)) for one in round]
        chosen = [order[i] for order, i in zip(orders, place, strict=True)]
        return usable[np.array(chosen, dtype=np.int64)]


@lru_cache(maxsize=8)
def _order(seed: int, feed: int, round: int, n: int) -> Whole:
    """Return the order in which n questions come in a round."""
    return np.random.default_rng([seed, feed, round, n]).permutation(n)
