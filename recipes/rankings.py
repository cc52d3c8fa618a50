"""First-stage rankings of the evaluation sets, selections of their candidates, and a clock."""

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from jpr import load_questions, load_rankings
from jpr.rerank.order import ranked
from jpr.train.sources import has_answers
from jpr.types import Question, Ranking

T = TypeVar("T")


def first_stage(options: argparse.Namespace, data: str) -> tuple[list[Question], list[Ranking]]:
    """Return the questions of a set, and the candidates of those with answers."""
    questions = load_questions(options.questions / f"{data}.jsonl")
    return questions, answerable(questions, load_rankings(options.runs / f"hybrid-{data}.jsonl"))


def input_files(options: argparse.Namespace, sets: Iterable[str]) -> dict[str, Path]:
    """Return the files that `first_stage` reads, for a manifest."""
    files = {f"{data}.jsonl": options.questions / f"{data}.jsonl" for data in sets}
    return files | {f"hybrid-{data}.jsonl": options.runs / f"hybrid-{data}.jsonl" for data in sets}


def answerable(questions: Sequence[Question], rankings: Iterable[Ranking]) -> list[Ranking]:
    """Return the rankings that a pack holds: those of questions with answers."""
    known = {question.id for question in questions if has_answers(question)}
    return [ranking for ranking in rankings if ranking.question.id in known]


def select(rankings: Sequence[Ranking], places: Sequence[Sequence[int]]) -> list[Ranking]:
    """Return the candidates at these places, in their order."""
    return [
        ranked(ranking.question, ranking.hits, [(at, -float(i)) for i, at in enumerate(some)])
        for ranking, some in zip(rankings, places, strict=True)
    ]


def evenly_spaced(given: Sequence[T], n: int) -> list[T]:
    """Return n of these, evenly spaced."""
    return [given[at] for at in np.linspace(0, len(given) - 1, min(n, len(given)), dtype=np.int64)]


class Clock:
    """Seconds for each question; called as a progress callback."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.perf_counter()

    @property
    def median(self) -> float | None:
        """The median, or None if an earlier process did all the work."""
        return round(median(self.seconds), 2) if self.seconds else None

    def __call__(self, done: int) -> None:
        """Note that `done` more are finished; those of an earlier process come all at once."""
        now = time.perf_counter()
        if done == 1:
            self.seconds.append(now - self._last)
            if len(self.seconds) % 50 == 0:
                print(len(self.seconds), self.median, flush=True)
        self._last = now
