"""Answers as passages write them: located in their texts, with the passages that support them.

A model that reads passages gives an answer as tokens (`AnswerLocator`, `candidate_answers`), a
model that writes freely as a text (`grounded`).
"""

from collections.abc import Iterator, Sequence
from math import log
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.decode.answers import Evidence
from jpr.decode.conditioning import Conditioned
from jpr.rerank.evidence import Vocabulary
from jpr.rerank.merge_answers import merge_answers
from jpr.text import answer_spans, without_surrogates
from jpr.types import Answer, ExpectedAnswer, Hit, Node, Passage, Ranking, Support

_MAX_EXPECTED, _MIN_EXPECTED = 5, 0.01
"""Expected answers of a node: at most this many, at least this likely."""
_MAX_ANSWERS, _MIN_ANSWER = 64, 1e-4  # the same for the answers of all candidates
Tokens = tuple[int, ...]
Spans = tuple[tuple[int, int], ...]


class AnswerLocator:
    """Finds tokens in the texts of passages, as whole words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self.vocabulary = tokenizer, Vocabulary.of(tokenizer)

    def decoded(self, tokens: Tokens) -> str:
        """Return tokens as a text."""
        return str(self._tokenizer.decode(list(tokens)))

    def answers(
        self,
        found: Sequence[tuple[Tokens, float]],
        passages: Sequence[Passage],
        contains: NDArray[np.bool_],
    ) -> list[Answer]:
        """Return answers, of which log P is given, as the first passage that has them writes them.

        Only those passages are searched that may contain an answer, by `contains` (C, A).
        """
        written: list[list[tuple[str, Support]]] = [[] for _ in found]
        for passage, own in zip(passages, contains, strict=True):
            places = np.flatnonzero(own).tolist()
            located = self.locate(passage, [found[at][0] for at in places])
            for at, (text, spans) in zip(places, located, strict=True):
                if text:  # else it runs from the title into the text
                    written[at].append((text, Support(passage, spans)))
        return [
            Answer(own[0][0], log_prob, tuple(support for _, support in own))
            for (_, log_prob), own in zip(found, written, strict=True)
            if own
        ]

    def locate(self, passage: Passage, answers: Sequence[Tokens]) -> Iterator[tuple[str, Spans]]:
        """Yield how a passage writes each answer, and its spans in the passage's text.

        An answer that only the title contains has no spans; one that neither contains is "".
        """
        fields = (self._spans(text, answers) for text in (passage.text, passage.title))
        for spans, in_title in zip(*fields, strict=True) if answers else ():
            if spans:
                yield passage.text[slice(*spans[0])], spans
            else:
                yield passage.title[slice(*in_title[0])] if in_title else "", ()

    def _spans(self, text: str, answers: Sequence[Tokens]) -> Iterator[Spans]:
        """Yield the spans of each answer as whole words of a text."""
        encoded = self._tokenizer.encode(without_surrogates(text), add_special_tokens=False)
        ids, offsets = np.array(encoded.ids, dtype=np.int64), encoded.offsets
        continues = np.append(self.vocabulary.continues(ids), False)
        continues[0] = False
        for tokens in answers:
            size, known = len(tokens), self.vocabulary.unknown not in tokens  # words share that one
            spans = [
                _trimmed(text, offsets[at][0], offsets[at + size - 1][1])
                for at in np.flatnonzero((ids == tokens[0]) & known).tolist()
                if tuple(ids[at : at + size].tolist()) == tokens
                and not (continues[at] or continues[at + size])
            ]
            yield tuple(span for span in spans if span[0] < span[1])


def _trimmed(text: str, first: int, last: int) -> tuple[int, int]:
    """Exclude spaces, which some tokenizers count; include marks on the last letter."""
    while last < len(text) and category(text[last])[0] == "M":
        last += 1
    inside = text[first:last]
    first += len(inside) - len(inside.lstrip())
    return first, first + len(inside.strip())


def expected_answers(
    model: Conditioned, question: int, node: Node, candidates: Ranking, locator: AnswerLocator
) -> tuple[ExpectedAnswer, ...]:
    """Return the most likely answers that the passage of a new node adds to its prefix."""
    if not node.is_new:
        return ()
    evidence, overall = model.observed[question].evidence, model.overall(question)
    mass = model.new_mass(question, node.prefix) * evidence.contains[node.passage]
    kept = _most_likely(mass, _MAX_EXPECTED, _MIN_EXPECTED)
    passage = candidates.hits[node.passage].passage
    found = locator.locate(passage, [evidence.answers[answer] for answer in kept])
    return tuple(
        ExpectedAnswer(
            text or locator.decoded(evidence.answers[answer]),  # cut, or across the title
            float(mass[answer]),
            float(overall[answer]),
            spans,
        )
        for answer, (text, spans) in zip(kept, found, strict=True)
    )


def candidate_answers(
    evidence: Evidence,
    overall: NDArray[np.float64],
    hits: Sequence[Hit],
    chosen: Sequence[int],
    locator: AnswerLocator,
) -> tuple[Answer, ...]:
    """Return the answers that chosen candidates contain, merged, most likely first.

    `overall` (A,) is P(a) over all candidates: a reader of five passages knows what a hundred say.
    Equal forms are parts of one probability and are summed. The spelling shown has its support
    first.
    """
    contained = evidence.contains[list(chosen)].any(axis=0)
    kept = _most_likely(np.where(contained, overall, 0.0), _MAX_ANSWERS, _MIN_ANSWER)
    found = [(evidence.answers[answer], log(overall[answer])) for answer in kept]
    passages = [hits[place].passage for place in chosen]
    written = locator.answers(found, passages, evidence.contains[np.ix_(chosen, kept)])
    return merge_answers(written)


def _most_likely(probs: NDArray[np.float64], limit: int, minimum: float) -> list[int]:
    """Return the answers of at least this probability (A,), most likely first."""
    order: list[int] = np.argsort(-probs, kind="stable")[:limit].tolist()
    return [answer for answer in order if probs[answer] >= minimum]


def grounded(text: str, log_prob: float, hits: Sequence[Hit]) -> Answer | None:
    """Return an answer as the first passage that contains it writes it; None if none does.

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
