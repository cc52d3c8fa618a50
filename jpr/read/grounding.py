"""Grounding: answers as passages write them, with the passages that contain them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jpr.rerank.answer_text import merged_support
from jpr.text import answer_spans, normalize_answer
from jpr.types import Answer, Hit, Passage, Support


def grounded(text: str, log_prob: float, hits: Sequence[Hit]) -> Answer | None:
    """Return an answer as the first passage that contains it writes it; None if none does.

    >>> passage = Passage("1", "Roseanne", "Ames McNamara played Mark.")
    >>> grounded("ames mcnamara", -0.1, [Hit(passage, 1.0)]).text
    'Ames McNamara'
    """
    found = [(hit.passage, *_located(hit.passage, text)) for hit in hits]
    support = merged_support(
        Support(passage, spans) for passage, written, spans in found if written
    )
    written = next((written for _, written, _ in found if written), None)
    return Answer(written, log_prob, support) if written else None


def _located(passage: Passage, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return how a passage writes an answer, and its spans; "" if it does not contain it."""
    spans = answer_spans(passage.text, text)
    if spans:
        return passage.text[slice(*spans[0])], tuple(spans)
    named = answer_spans(passage.title, text)
    return (passage.title[slice(*named[0])] if named else ""), ()


def distinct(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Return the first answer of each normal form, with the support of all of them.

    An answer with an empty normal form, for example an article alone, is dropped.
    """
    found: dict[str, Answer] = {}
    for answer in answers:
        name = normalize_answer(answer.text)
        if name in found:
            support = merged_support([*found[name].support, *answer.support])
            found[name] = replace(found[name], support=support)
        elif name:
            found[name] = answer
    return tuple(found.values())
