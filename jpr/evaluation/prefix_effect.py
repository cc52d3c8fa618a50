"""Does P(next | prefix) depend on the prefix as it should? A diagnostic of a joint model.

A model may ignore what was chosen: then its joint choice is its independent one, and a comparison
of decoders or objectives compares nothing. The measures are means over questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Ask, Limits, chosen_passages, decode_many
from jpr.decode.sequences import independent, sequence

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
_PREFIXES = 5  # answering passages of a question after which novelty is measured
_DIGITS = 6  # smaller differences are rounding


@dataclass(frozen=True, slots=True)
class PrefixEffect:
    """What a prefix changes."""

    kl: float
    """Between P(next) after the first and after the second passage of the first step, in nats."""
    novelty: float
    """AUC: after an answering passage, log P of candidates with a new answer should have risen
    above that of those that repeat its answers; chance is 0.5. NaN if no question has both."""
    changed: float
    """Share of questions for which SeqDecode's k passages are not the first k of the first step."""
    questions: int
    novelty_questions: int
    """Questions on which novelty was measured."""


def prefix_effect(ask: Ask, covers: Sequence[Flags], k: int = 5) -> PrefixEffect:
    """Measure what prefixes change, given which candidates contain which answers, (C, A) each."""
    some = [at for at, own in enumerate(covers) if len(own) > 2]
    kl = [_divergence(ask, at) for at in some]
    novelty = [auc for at in some for auc in _novelty(ask, at, covers[at])]
    changed = [differ for differ in _changed(ask, [len(covers[at]) for at in some], some, k)]
    return PrefixEffect(_mean(kl), _mean(novelty), _mean(changed), len(some), len(novelty))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


def _divergence(ask: Ask, at: int) -> float:
    """Return KL(P(next | first) ‖ P(next | second)) over the candidates that neither is."""
    (start,) = ask([(at, ())])
    pair = np.argsort(-start, kind="stable")[:2].tolist()
    rows = ask([(at, (place,)) for place in pair])
    others = np.delete(np.stack(rows).astype(np.float64), pair, axis=1)
    one, two = others - np.logaddexp.reduce(others, axis=1, keepdims=True)
    likely = one > -np.inf
    return float((np.exp(one[likely]) * (one[likely] - two[likely].clip(min=-1e3))).sum())


def _novelty(ask: Ask, at: int, covers: Flags) -> Iterator[float]:
    """Yield the question's AUC, a mean over prefixes, if any prefix has one."""
    (start,) = ask([(at, ())])
    answering = [c for c in np.argsort(-start, kind="stable").tolist() if covers[c].any()]
    found = []
    for passage in answering[:_PREFIXES]:
        others = [c for c in answering if c != passage]
        new = np.array([(covers[c] & ~covers[passage]).any() for c in others], dtype=np.bool_)
        if new.any() and not new.all():
            (row,) = ask([(at, (passage,))])
            found.append(_auc(np.round((row - start)[others], _DIGITS), new))
    if found:
        yield float(np.mean(found))


def _auc(values: Floats, positive: Flags) -> float:
    """Return the share of pairs in which the positive one is larger; ties count half."""
    above, below = values[positive][:, None], values[~positive][None]
    return float((above > below).mean() + 0.5 * (above == below).mean())


def _changed(ask: Ask, sizes: Sequence[int], which: Sequence[int], k: int) -> Iterator[bool]:
    """Yield for each question whether SeqDecode's set is another than the first step's."""
    for at, n in zip(which, sizes, strict=True):
        both = [search(n, Limits(k)) for search in (sequence, independent)]
        one, two = decode_many(both, lambda pairs, at=at: ask([(at, p) for _, p in pairs]))  # type: ignore[misc]
        yield set(chosen_passages(one)) != set(chosen_passages(two))
