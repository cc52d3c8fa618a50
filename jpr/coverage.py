"""Which passages cover which answers: the matrix that measures, oracles and training share.

`Coverage` holds it for many questions as flat arrays, so that computations run over all questions
at once.
"""

import hashlib
import warnings
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain, compress
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError
from jpr.io.atomic import publish_binary
from jpr.stages import Progress
from jpr.text import AnswerMatcher
from jpr.types import Question, Ranking

Ints = NDArray[np.int64]

_VERSION = "1"  # part of every cache key; increased when the definition of a match changes
_CHUNK = 50  # questions per task of a worker: about 4 MB of text
_MIN_PARALLEL = 500  # fewer questions take less time than starting a process


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """For each question, which of its ranked passages contain which of its answers.

    Entry i: the passage at `rank[i]` (from 0) of question `question[i]` contains answer
    `answer[i]`. Entries are sorted by question, then rank, then answer.

    >>> coverage = Coverage.of_lists([2], [[{0}, set(), {0, 1}]])
    >>> coverage.matrix(0).astype(int).tolist()  # answers x passages
    [[1, 0, 1], [0, 0, 1]]
    """

    n_answers: Ints
    """Distinct answers of each question, found or not."""
    n_passages: Ints
    """Length of each question's ranking."""
    question: Ints
    rank: Ints
    answer: Ints

    @classmethod
    def of_lists(
        cls, n_answers: Sequence[int], covers: Sequence[Sequence[Collection[int]]]
    ) -> "Coverage":
        """Build it from `covers[question][rank]`, the answers that the passage contains."""
        entries = [
            (question, rank, answer)
            for question, ranking in enumerate(covers)
            for rank, answers in enumerate(ranking)
            if answers
            for answer in sorted(answers)
        ]
        columns = np.array(entries, dtype=np.int64).reshape(-1, 3).T
        return cls(
            np.array(n_answers, dtype=np.int64),
            np.array([len(ranking) for ranking in covers], dtype=np.int64),
            *columns,
        )

    def __len__(self) -> int:
        return len(self.n_answers)

    def matrix(self, question: int) -> NDArray[np.bool_]:
        """Return one question's answers × passages."""
        found = np.zeros((self.n_answers[question], self.n_passages[question]), dtype=np.bool_)
        first, last = np.searchsorted(self.question, (question, question + 1))
        found[self.answer[first:last], self.rank[first:last]] = True
        return found

    def covers(self, question: int) -> list[frozenset[int]]:
        """Return, for each passage of one question, the answers it contains."""
        answers, columns = range(self.n_answers[question]), self.matrix(question).T.tolist()
        return [frozenset(compress(answers, column)) for column in columns]

    def reorder(self, positions: Sequence[Sequence[int]]) -> "Coverage":
        """Return the coverage of other rankings of the same passages.

        `positions[question]` lists, best first, the rank of each passage in this coverage.
        """
        lengths = np.fromiter(map(len, positions), dtype=np.int64, count=len(positions))
        start_new, start_old = starts(lengths), starts(self.n_passages)
        flat = np.fromiter(chain.from_iterable(positions), dtype=np.int64)
        source = flat + np.repeat(start_old, lengths)
        entries_of = np.bincount(
            start_old[self.question] + self.rank, minlength=int(self.n_passages.sum())
        )
        first_entry = starts(entries_of)
        counts = entries_of[source]
        taken = np.arange(counts.sum()) - np.repeat(starts(counts), counts)
        entry = np.repeat(first_entry[source], counts) + taken
        passage = np.repeat(np.arange(len(source)), counts)
        question = np.searchsorted(start_new, passage, side="right") - 1
        return Coverage(
            self.n_answers, lengths, question, passage - start_new[question], self.answer[entry]
        )


def starts(lengths: Ints) -> Ints:
    """Return the starts of consecutive segments of these lengths."""
    return np.cumsum(lengths) - lengths


def cover(
    rankings: Sequence[Ranking],
    *,
    strict: bool = False,
    workers: int = 1,
    cache: Path | None = None,
    progress: Progress = lambda _: None,
) -> Coverage:
    """Search every answer in every passage of its question's ranking.

    `strict` ignores lone numerals and stop words (see `jpr.text`). `workers` processes share the
    work. A `cache` folder keeps the result under a hash of all texts and answers.
    """
    stored = cache and cache / f"coverage-{_key(rankings, strict)}.npz"
    if stored and (known := _load(stored)):
        progress(len(rankings))
        return known
    found: list[list[tuple[int, ...]]] = []
    timed_out: list[str] = []
    for ranking, (row, ran_out) in zip(rankings, _search(rankings, strict, workers), strict=True):
        found.append(row)
        if ran_out:
            timed_out.append(ranking.question.id)
        progress(1)
    if timed_out:
        problem = f"{len(timed_out)} regular expressions timed out and count as not found"
        warnings.warn(f"{problem}: questions {', '.join(timed_out[:5])}", stacklevel=2)
    gold = [ranking.question for ranking in rankings]
    n_answers = [len(question.answers) or int(bool(question.regex)) for question in gold]
    coverage = Coverage.of_lists(n_answers, found)
    if stored and not timed_out:  # they may end in time next time
        _save(coverage, stored)
    return coverage


def cover_by_ids(
    rankings: Sequence[Ranking], relevant: Mapping[str, Mapping[str, Collection[str]]]
) -> Coverage:
    """Use clusters of gold passages as answers: question id -> answer -> passage ids."""
    covers = []
    for ranking in rankings:
        holds: dict[str, list[int]] = {}
        for answer, ids in enumerate(relevant.get(ranking.question.id, {}).values()):
            for id in ids:
                holds.setdefault(id, []).append(answer)
        covers.append([holds.get(hit.passage.id, ()) for hit in ranking.hits])
    n_answers = [len(relevant.get(ranking.question.id, {})) for ranking in rankings]
    return Coverage.of_lists(n_answers, covers)


_Found = tuple[list[tuple[int, ...]], bool]
"""The answers in each passage of a question, and whether its regular expression timed out."""


def _search(rankings: Sequence[Ranking], strict: bool, workers: int) -> Iterator[_Found]:
    search = partial(_search_passages, strict=strict)
    questions = (ranking.question for ranking in rankings)
    texts = ([(hit.passage.title, hit.passage.text) for hit in r.hits] for r in rankings)
    if workers <= 1 or len(rankings) < _MIN_PARALLEL:
        yield from map(search, questions, texts)
        return
    # spawn: a forked copy of a process with threads (a progress display has one) may deadlock
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(search, questions, texts, chunksize=_CHUNK)


def _search_passages(
    question: Question, passages: Iterable[tuple[str, str]], strict: bool
) -> _Found:
    matcher = AnswerMatcher(question, strict=strict)
    return [matcher.found_in(title, text) for title, text in passages], matcher.timed_out


def _key(rankings: Sequence[Ranking], strict: bool) -> str:
    digest = hashlib.blake2b(f"{_VERSION} {strict}".encode(), digest_size=16)
    for ranking in rankings:
        question = ranking.question
        digest.update(repr((question.answers, question.regex, len(ranking.hits))).encode())
        for hit in ranking.hits:
            title, text = hit.passage.title, hit.passage.text
            whole = f"{len(title)} {len(text)} {title}{text}"
            digest.update(whole.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _save(coverage: Coverage, path: Path) -> None:
    try:
        with publish_binary(path) as stream:
            np.savez(stream, **{f.name: getattr(coverage, f.name) for f in fields(Coverage)})
    except (ConfigError, OSError) as error:
        warnings.warn(f"the coverage is not cached: {error}", stacklevel=3)


def _load(path: Path) -> Coverage | None:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return Coverage(*(arrays[f.name] for f in fields(Coverage)))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None  # missing or damaged: computed again
