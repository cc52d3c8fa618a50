"""The answers that all candidates tell, as the chosen passages write them.

P(a) = Σ_c P(c) · P(a | c), before anything is chosen: what was chosen says which answers are shown,
not how likely they are. So a reader of five passages knows what a hundred say.
"""

from collections.abc import Iterable, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from jpr.decode import Evidence
from jpr.rerank.explain import Places
from jpr.text import normalize_answer
from jpr.types import Answer, Hit, Passage, Support

_MOST = 64
_LEAST = 1e-4
"""Answers less likely than this are not looked at."""


def told(
    evidence: Evidence,
    mass: NDArray[np.float64],
    hits: Sequence[Hit],
    chosen: Sequence[int],
    places: Places,
) -> tuple[Answer, ...]:
    """Return the answers that chosen candidates contain, likeliest first, one of each normal form.

    `mass` (A,) is how likely each is. What supports the likeliest spelling comes first.
    """
    shown = np.where(evidence.holds[list(chosen)].any(axis=0), mass, 0.0)
    wanted = [a for a in np.argsort(-shown, kind="stable")[:_MOST].tolist() if shown[a] >= _LEAST]
    written: dict[int, list[tuple[str, Support]]] = {answer: [] for answer in wanted}
    for place in chosen:
        passage = hits[place].passage
        held = [answer for answer in wanted if evidence.holds[place, answer]]
        found = places.of(passage, [evidence.answers[answer] for answer in held])
        for answer, (text, spans) in zip(held, found, strict=True):
            if text:  # else it goes on where the title ends
                written[answer].append((text, Support(passage, spans)))
    groups: dict[str, list[int]] = {}
    for answer in wanted:
        if written[answer] and (name := normalize_answer(written[answer][0][0])):
            groups.setdefault(name, []).append(answer)
    answers = [
        Answer(
            written[group[0]][0][0],
            log(sum(mass[answer] for answer in group)),
            together(one for answer in group for _, one in written[answer]),
        )
        for group in groups.values()
    ]
    return tuple(sorted(answers, key=lambda answer: -answer.log_prob))


def together(supports: Iterable[Support]) -> tuple[Support, ...]:
    """Leave each passage once, with all places of it."""
    spans: dict[Passage, set[tuple[int, int]]] = {}
    for one in supports:
        spans.setdefault(one.passage, set()).update(one.spans)
    return tuple(Support(passage, tuple(sorted(found))) for passage, found in spans.items())
