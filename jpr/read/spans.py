"""The reader without weights of its own: the joint model says where answers stand.

Spans of passages that are likely answers, merged over passages; those at least 0.3 times as likely
as the likeliest are the answers, but of "dollar" and "Bahamian dollar" only the likelier. Where
passages were chosen by the same model, it has read all candidates already: then all of them count
for how likely an answer is, and those are given that the chosen passages contain.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from math import log
from pathlib import Path

from jpr.errors import ConfigError
from jpr.rerank.joint import Auto, JointReranker
from jpr.text import normalize_answer
from jpr.types import Answer, Outcome, Ranking

LEAST = 0.3
"""Tuned on WebQuestions dev and AmbigNQ dev (docs/lab.md)."""
MOST = 20
_EVERY = 1 << 30


class SpanReader:
    """Reads answers off passages, by a joint model that was trained to find them."""

    def __init__(self, model: JointReranker, least: float = LEAST, most: int = MOST) -> None:
        """Give answers at least `least` times as likely as the likeliest, and at most `most`."""
        if not 0 < least <= 1:
            raise ConfigError(f"least {least}; give a share above 0, at most 1")
        if most < 1:
            raise ConfigError(f"most {most}; ask for at least one answer")
        self._model, self._least, self._most = model.reading(), least, most
        self.key = f"spans {self._model.key} {least} {most}"

    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        least: float = LEAST,
        most: int = MOST,
        *,
        device: str = "auto",
        threads: int = 0,
    ) -> "SpanReader":
        """Open a joint model's folder, or the model that comes with the package."""
        return cls(JointReranker.load(folder, device=device, threads=threads), least, most)

    def read(self, ranking: Ranking) -> Outcome:
        """Return the answers that a question's passages give."""
        return next(self.read_many([ranking]))

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[Outcome]:
        """Do the same for many questions, some at a time."""
        given, read = tee(rankings)
        for ranking, choice in zip(given, self._model.decode_many(read, _EVERY), strict=True):
            yield Outcome(ranking, self.kept(choice.answers))

    def reads_for(self, reranker: JointReranker) -> bool:
        """Tell whether a reranker is the same model, so that both can read at once."""
        return reranker.weights == self._model.weights

    def kept(self, answers: Sequence[Answer]) -> tuple[Answer, ...]:
        """Return those of a question's answers, likeliest first, that are given."""
        return likely(answers, self._least, self._most)


def likely(answers: Sequence[Answer], least: float = LEAST, most: int = MOST) -> tuple[Answer, ...]:
    """Leave out what is much less likely than the likeliest, or part of a likelier one."""
    kept: list[Answer] = []
    words: list[str] = []
    for answer in answers:
        own = f" {normalize_answer(answer.text)} "
        if answer.log_prob < answers[0].log_prob + log(least):
            break
        if not any(own in other or other in own for other in words):
            kept.append(answer)
            words.append(own)
    return tuple(kept[:most])


class ChoosingReader:
    """Reads all candidates, chooses k of them, and answers what those contain: in one pass."""

    def __init__(self, reranker: JointReranker, reader: SpanReader, k: int | Auto) -> None:
        """Take a reranker and a reader that are the same model."""
        if not reader.reads_for(reranker):
            raise ConfigError("reader and reranker are different models; let each read by itself")
        if k == "auto":
            reranker, k = reranker.adaptive(), reranker.most
        self._reranker, self._reader, self._k = reranker, reader, k
        self.key = f"choosing {reranker.key} {reader.key} {k}"

    def read(self, ranking: Ranking) -> Outcome:
        """Return k of a question's passages, and the answers."""
        return next(self.read_many([ranking]))

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[Outcome]:
        """Do the same for many questions, some at a time."""
        for choice in self._reranker.decode_many(rankings, self._k):
            yield Outcome(choice.ranking, self._reader.kept(choice.answers))
