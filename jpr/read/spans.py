"""The reader without weights of its own: the joint model locates answers in passages.

Every answer has its own probability of being right. Given are those whose odds are at least a
fifth of the likeliest one's, or those above a threshold. Of "dollar" and "Bahamian dollar" only
the likelier is an answer, unless it is the longer one and the other also stands alone in a passage.
A reranker with the same model has read all candidates already: then all of them count for the
probability of an answer, and the answers are those that the chosen passages contain.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import exp
from pathlib import Path

from jpr.errors import ConfigError
from jpr.rerank.joint import JointReranker
from jpr.rerank.merge_answers import own_passages
from jpr.rerank.order import warn_if_cut
from jpr.stages import Reader
from jpr.text import tokens
from jpr.types import Answer, Ranking

MAX_ANSWERS = 64
ANSWERABLE = 0.05
"""No answer is given if all are less likely than this: the passages do not have it."""
MIN_ODDS = 0.2  # of the likeliest answer's; tuned on development data (docs/lab.md)
_CERTAIN = 1e-6
_ALL = 1 << 30


class SpanReader(Reader):
    """Reads answers off passages, by a joint model that was trained to locate them."""

    def __init__(
        self,
        model: JointReranker,
        min_probability: float | None = None,
        max_answers: int = MAX_ANSWERS,
        choose: int | None = None,
    ) -> None:
        """Give answers of at least this probability, by default those near the likeliest.

        With `choose`, the model reads all passages, chooses this many of them as it was opened to,
        and gives the answers that those contain, in one pass.
        """
        if min_probability is not None and not 0 <= min_probability <= 1:
            raise ConfigError(f"min_probability = {min_probability}; give a number from 0 to 1")
        if max_answers < 1:
            raise ConfigError(f"max_answers = {max_answers}; give at least 1")
        self._model, self._minimum, self._max_answers = model, min_probability, max_answers
        self._reading, self._k = model.for_reading(), _ALL
        self.key = f"spans {self._reading.key} {min_probability} {max_answers}"
        if choose is not None:
            self._reading, self._k = model, choose
            self.key = f"choosing {model.key} {self.key} {choose}"

    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        min_probability: float | None = None,
        max_answers: int = MAX_ANSWERS,
        choose: int | None = None,
        *,
        device: str = "auto",
        threads: int = 0,
    ) -> "SpanReader":
        """Open a joint model's folder, or the bundled model."""
        model = JointReranker.load(folder, device=device, threads=threads)
        return cls(model, min_probability, max_answers, choose)

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[tuple[Answer, ...]]:
        """Return the answers in the passages of many questions, in batches."""
        for reply in self._reading.decode_many(rankings, self._k):
            warn_if_cut(bool(reply.truncated))
            yield self.select(reply.answers)

    def shares_model(self, reranker: JointReranker) -> bool:
        """Return whether a reranker has the same weights, so that one pass serves both."""
        return reranker.weights == self._model.weights

    def select(self, answers: Sequence[Answer]) -> tuple[Answer, ...]:
        """Return those of a question's answers, most likely first, that are likely enough."""
        return likely(answers, self._minimum, self._max_answers)


def likely(
    answers: Sequence[Answer], min_probability: float | None = None, max_answers: int = MAX_ANSWERS
) -> tuple[Answer, ...]:
    """Return the answers to give, most likely first.

    Without a minimum these are the answers whose odds are at least a fifth of the likeliest
    one's; none if the passages hardly have one.
    """
    apart = list(_without_parts(answers))
    if not apart:
        return ()
    if min_probability is None:
        best = exp(apart[0].log_prob)
        if best < ANSWERABLE:
            return ()
        least = MIN_ODDS * best / max(1 - best, _CERTAIN)
        min_probability = least / (1 + least)
    kept = [answer for answer in apart if exp(answer.log_prob) >= min_probability]
    return tuple(kept[:max_answers])


def _without_parts(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Leave out longer forms of likelier answers, and mere parts of them."""
    kept: list[Answer] = []
    words: list[str] = []
    for answer in answers:
        own = f" {' '.join(tokens(answer.text))} "
        around = [one for one, other in zip(kept, words, strict=True) if own in other]
        is_part = around and not own_passages(answer, around)
        if not is_part and not any(other in own for other in words):
            kept.append(answer)
            words.append(own)
            yield answer
