"""Questions and candidates of a training step, sampled from packs by seed and step alone.

Every question of a pack comes once before any comes a second time. The parts into which a batch is
split, for processes and micro-batches, do not change what is in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError
from jpr.train.dynamic_oracle import Bits, Flags, Ints, Real, has_answer, subsample
from jpr.train.pack import Pack


@dataclass(frozen=True, slots=True, eq=False)
class CandidateBatch:
    """The candidates of several questions of one pack, padded, in first-stage order."""

    questions: Ints  # (Q,) their numbers in the pack
    edges: Ints  # (Q, C) numbers of candidates in the pack, -1 where a question has fewer
    covers: Bits  # (Q, C, B) the answers of each candidate, as bits; see `jpr.train.dynamic_oracle`

    @property
    def present(self) -> Flags:
        """Which candidates exist (Q, C)."""
        return self.edges >= 0

    def select(self, places: Ints) -> "CandidateBatch":
        """Return the candidates at these places (Q, n), -1 for none."""
        edges = np.take_along_axis(self.edges, places, axis=1)
        covers = np.take_along_axis(self.covers, places[..., None], axis=1)
        exists = places >= 0
        return CandidateBatch(
            self.questions, np.where(exists, edges, -1), covers * exists[..., None]
        )

    def flat(self) -> tuple[Ints, Ints]:
        """Return the question and the number in the pack of every candidate that exists."""
        return self.questions[np.nonzero(self.present)[0]], self.edges[self.present]

    def rows(self, which: Ints) -> "CandidateBatch":
        """Return some of the questions."""
        return CandidateBatch(self.questions[which], self.edges[which], self.covers[which])


@dataclass(eq=False)
class Dataset:
    """A pack to train on, with its weight among others."""

    pack: Pack
    weight: float = 1.0
    scores: NDArray[np.floating] | None = None
    """IndepPR's scores s(p), one per candidate of the pack."""
    sources: Sequence[str] = ()  # only the questions of these files are sampled, if there are any

    def __post_init__(self) -> None:
        pack, sources = self.pack, self.sources
        if self.scores is not None and self.scores.shape != pack.candidates.shape:
            raise DataError(
                f"{self.scores.shape} scores for {len(pack.candidates)} candidates of a pack; "
                "were they made for another?"
            )
        self.cover_starts = np.searchsorted(pack.cover_edges, pack.candidate_starts)
        named: Sequence[str] = pack.about["sources"] if sources else ()
        for name in sources:
            if name not in named:
                raise DataError(f"the pack has no source {name!r}; it has {', '.join(named)}")
        own = np.isin(pack.sources, [named.index(name) for name in sources])
        self.usable = np.flatnonzero(np.diff(self.cover_starts) * (own | (not sources)))
        """The questions to sample: those with an answer among their candidates."""
        self.width = int(np.diff(pack.candidate_starts).max(initial=0))
        """The largest number of candidates of a question."""

    def batch(self, questions: Ints, width: int = 0) -> CandidateBatch:
        """Return all candidates of these questions, padded to `width`."""
        starts, width = self.pack.candidate_starts, width or self.width
        first, counts = starts[questions], np.diff(starts)[questions]
        places = np.arange(width)
        edges = np.where(places < counts[:, None], first[:, None] + places, -1)
        n_covers = np.diff(self.cover_starts)[questions]
        row = np.repeat(np.arange(len(questions)), n_covers)
        before = n_covers.cumsum() - n_covers
        entries = np.arange(len(row)) + np.repeat(self.cover_starts[questions] - before, n_covers)
        place = self.pack.cover_edges[entries].astype(np.int64) - first[row]
        # Bits are numbered among the answers in some candidate: thousands may be in none.
        keys = row << 16 | self.pack.cover_answers[entries]
        known, which = np.unique(keys, return_inverse=True)
        bit = which - np.searchsorted(known, row << 16)
        covers = np.zeros((len(questions), width, int(bit.max(initial=0)) + 1), dtype=np.bool_)
        covers[row, place, bit] = True
        return CandidateBatch(questions, edges, np.packbits(covers, axis=-1))

    def batches(self, questions: Ints, limit: int, size: int) -> Iterator[CandidateBatch]:
        """Yield these questions, at most `limit` evenly spaced ones (0: all), in batches."""
        count = min(limit or len(questions), len(questions))
        some = questions[np.linspace(0, len(questions) - 1, count, dtype=np.int64)]
        for first in range(0, len(some), size):
            yield self.batch(some[first : first + size])

    def prior_scores(self, batch: CandidateBatch) -> Real:
        """Return s(p) (Q, C): IndepPR's, or −log of the first-stage rank without them.

        Other questions' candidates get the lowest score of a question's own.
        """
        own, ranks = self.pack.ranks(batch.questions[:, None], batch.edges)
        found = -np.log1p(ranks)
        if self.scores is not None:
            found = self.scores[batch.edges].astype(np.float64)
        lowest = np.where(own, found, np.inf).min(axis=1, keepdims=True)
        return np.where(own, found, np.where(batch.present, lowest, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Questions of one data set, each with the candidates it is trained on and its own noise."""

    dataset: Dataset
    batch: CandidateBatch
    numbers: Ints
    """(Q, C) random numbers of index tokens, different for each candidate of a question."""
    noise: tuple[Real, Real]  # (Q, C) twice


@dataclass(eq=False)
class Sampler:
    """An endless sequence of batches from data sets, by weight."""

    datasets: Sequence[Dataset]
    batch: int
    candidates: int  # how many candidates of each question are sampled; 0 takes all
    k: int
    seed: int
    random_negatives: float = 0.0
    """Share of the candidates without an answer that other questions' candidates replace."""

    def __post_init__(self) -> None:
        if any(not len(dataset.usable) for dataset in self.datasets):
            raise DataError("a pack has no question with an answer among its candidates")
        n = len(self.datasets)
        if self.batch < n * (n - 1):
            raise ConfigError(f"batches of {self.batch} questions cannot mix {n} packs")
        self.datasets = sorted(self.datasets, key=lambda dataset: dataset.weight)
        self._width = max(dataset.width for dataset in self.datasets)
        self._n = min(self.candidates or self._width, self._width)

    def part(self, step: int, part: int, parts: int, index_tokens: int) -> list[Sample]:
        """Return every `parts`-th question of a step's batch, by data set."""
        if self.batch < parts:
            problem = f"{self.batch} questions for {parts} micro-batches of all processes"
            raise ConfigError(f"a batch of {problem}; make it larger")
        rng = np.random.default_rng([self.seed, step])
        noise = rng.random((3, self.batch, self._width))
        numbers = rng.random((self.batch, max(index_tokens, self._n))).argsort(axis=1)
        slots = rng.permutation(self.batch)[part::parts]
        others = rng.random((2, self.batch, self._n))
        found, before = [], 0
        for dataset, questions in zip(self.datasets, self._questions(step), strict=True):
            own = slots[(slots >= before) & (slots < before + len(questions))]
            if len(own):
                chosen = questions[own - before]
                sample = self._sample(dataset, chosen, noise[:, own], others[:, own], numbers[own])
                found.append(sample)
            before += len(questions)
        return found

    def _sample(
        self, dataset: Dataset, questions: Ints, noise: Real, others: Real, numbers: Ints
    ) -> Sample:
        whole = dataset.batch(questions, self._width)
        places = subsample(whole.covers, whole.present, self._n, self.k, noise[0])
        batch = whole.select(places)
        replaced = batch.present & ~has_answer(batch.covers) & (others[1] < self.random_negatives)
        random_edges = (others[0] * len(dataset.pack.candidates)).astype(np.int64)
        batch = replace(batch, edges=np.where(replaced, random_edges, batch.edges))
        narrow = noise[1:, :, : self._n]
        return Sample(dataset, batch, numbers[:, : self._n], (narrow[0], narrow[1]))

    def _questions(self, step: int) -> list[Ints]:
        """Return the questions of a step's batch by data set; the largest takes the rest."""
        total = sum(dataset.weight for dataset in self.datasets)
        rates = [self.batch * dataset.weight / total for dataset in self.datasets[:-1]]
        bounds = []
        for at in (step, step + 1):
            visits = [int(at * rate) for rate in rates]
            bounds.append([*visits, at * self.batch - sum(visits)])
        found = []
        for number, (first, last) in enumerate(zip(*bounds, strict=True)):
            usable = self.datasets[number].usable
            epochs, places = np.divmod(np.arange(first, last), len(usable))
            orders = [_order(self.seed, number, int(epoch), len(usable)) for epoch in epochs]
            chosen = [order[place] for order, place in zip(orders, places, strict=True)]
            found.append(usable[np.array(chosen, dtype=np.int64)])
        return found


@lru_cache(maxsize=8)
def _order(seed: int, dataset: int, epoch: int, n: int) -> Ints:
    return np.random.default_rng([seed, dataset, epoch, n]).permutation(n)
