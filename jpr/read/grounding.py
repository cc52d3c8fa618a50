"""Grounding: answers as passages write them, with the passages that contain them."""

from collections.abc import Iterable, Sequence

from jpr.rerank.answer_text import merged
from jpr.text import answer_spans
from jpr.types import Answer, Hit, Support


def grounded(text: str, log_prob: float, hits: Sequence[Hit]) -> Answer | None:
    """Return an answer as the first passage that contains it writes it; None if none does.

    >>> from jpr.types import Passage
    >>> passage = Passage("1", "Roseanne", "Ames McNamara played Mark.")
    >>> grounded("ames mcnamara", -0.1, [Hit(passage, 1.0)]).text
    'Ames McNamara'
    """
    written, supports = "", []
    for passage in (hit.passage for hit in hits):
        spans = answer_spans(passage.text, text)
        field = passage.text if spans else passage.title
        if found := spans or answer_spans(field, text):
            written = written or field[slice(*found[0])]
            supports.append(Support(passage, tuple(spans)))
    return Answer(written, log_prob, tuple(supports)) if written else None


def distinct(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Return the first answer of each normal form, with the support of all of them."""
    return tuple(answer for answer, _ in merged(answers))
