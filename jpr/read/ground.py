"""What passages say of an answer: no reader answers what no passage contains."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jpr.rerank.told import together
from jpr.text import answer_spans, normalize_answer
from jpr.types import Answer, Hit, Passage, Support


def grounded(text: str, log_prob: float, hits: Sequence[Hit]) -> Answer | None:
    """Return an answer as the first passage that contains it writes it; None where none does.

    >>> passage = Passage("1", "Roseanne", "Ames McNamara played Mark.")
    >>> grounded("ames mcnamara", -0.1, [Hit(passage, 1.0)]).text
    'Ames McNamara'
    """
    found = [(hit.passage, *_places(hit.passage, text)) for hit in hits]
    support = together(Support(passage, spans) for passage, written, spans in found if written)
    written = next((written for _, written, _ in found if written), None)
    return Answer(written, log_prob, support) if written else None


def _places(passage: Passage, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return how a passage writes an answer, and where in its text; "" where it does not."""
    spans = answer_spans(passage.text, text)
    if spans:
        return passage.text[slice(*spans[0])], tuple(spans)
    named = answer_spans(passage.title, text)
    return (passage.title[slice(*named[0])] if named else ""), ()


def distinct(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Leave one answer of each normal form, the first, with the support of all of them.

    One that is empty in normal form, such as an article alone, is no answer.
    """
    found: dict[str, Answer] = {}
    for answer in answers:
        name = normalize_answer(answer.text)
        if name in found:
            support = together([*found[name].support, *answer.support])
            found[name] = replace(found[name], support=support)
        elif name:
            found[name] = answer
    return tuple(found.values())
