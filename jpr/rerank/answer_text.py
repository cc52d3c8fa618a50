"""Answers as passages write them: located in their texts, with the passages that support them."""

from collections.abc import Iterable, Iterator, Sequence
from math import log
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.decode import Covering, Evidence
from jpr.encode.tokenizer import without_surrogates
from jpr.rerank.evidence import Vocabulary
from jpr.text import normalize_answer
from jpr.types import Answer, ExpectedAnswer, Hit, Node, Passage, Ranking, Support

_MAX_EXPECTED, _MIN_EXPECTED = 5, 0.01
"""Expected answers of a node: at most this many, at least this likely."""
_MAX_ANSWERS, _MIN_ANSWER = 64, 1e-4  # the same for the answers of all candidates


class AnswerLocator:
    """Finds tokens in the texts of passages, as whole words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Take the tokenizer that answers are tokens of."""
        self._tokenizer, self.vocabulary = tokenizer, Vocabulary.of(tokenizer)

    def locate(
        self, passage: Passage, answers: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
        """Yield how a passage writes each answer, and its spans in the passage's text.

        An answer that only the title contains has no spans; one that neither contains is "".
        """
        if not answers:
            return
        title, text = (
            _TokenizedText(field, self._tokenizer, self.vocabulary)
            for field in (passage.title, passage.text)
        )
        for tokens in answers:
            known = self.vocabulary.unknown not in tokens  # different words share that token
            spans, in_title = (one.spans(tokens) if known else () for one in (text, title))
            if spans:
                yield passage.text[slice(*spans[0])], spans
            else:
                yield passage.title[slice(*in_title[0])] if in_title else "", ()

    def decoded(self, tokens: tuple[int, ...]) -> str:
        """Return tokens as a text."""
        return str(self._tokenizer.decode(list(tokens)))


class _TokenizedText:
    """A text with its tokens: which they are, where, and (N + 1,) whether each continues a word."""

    def __init__(self, text: str, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        found = tokenizer.encode(without_surrogates(text), add_special_tokens=False)
        self.text, self.offsets = text, found.offsets
        self.ids = np.array(found.ids, dtype=np.int64)
        self.continues = np.append(vocabulary.continues(self.ids), False)
        self.continues[0] = False

    def spans(self, tokens: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return the spans of these tokens as whole words."""
        size = len(tokens)
        found = []
        for at in np.flatnonzero(self.ids[: len(self.ids) - size + 1] == tokens[0]).tolist():
            same = tuple(self.ids[at : at + size].tolist()) == tokens
            if same and not self.continues[at] and not self.continues[at + size]:
                found.append(self._trimmed(self.offsets[at][0], self.offsets[at + size - 1][1]))
        return tuple(span for span in found if span[0] < span[1])

    def _trimmed(self, first: int, last: int) -> tuple[int, int]:
        """Exclude spaces, which some tokenizers count; include marks on the last letter."""
        while last < len(self.text) and category(self.text[last])[0] == "M":
            last += 1
        inside = self.text[first:last]
        first += len(inside) - len(inside.lstrip())
        return first, max(first, last - (len(inside) - len(inside.rstrip())))


def expected_answers(
    covering: Covering, question: int, node: Node, candidates: Ranking, locator: AnswerLocator
) -> Iterator[ExpectedAnswer]:
    """Yield the most likely answers that the passage of a new node adds to its prefix."""
    if not node.is_new:
        return
    evidence, overall = covering.evidence[question], covering.overall(question)
    mass = covering.mass(question, node.prefix) * evidence.contains[node.passage]
    likely = np.argsort(-mass, kind="stable")[:_MAX_EXPECTED].tolist()
    kept = [answer for answer in likely if mass[answer] >= _MIN_EXPECTED]
    passage = candidates.hits[node.passage].passage
    found = locator.locate(passage, [evidence.answers[answer] for answer in kept])
    for answer, (text, spans) in zip(kept, found, strict=True):
        written = text or locator.decoded(evidence.answers[answer])  # cut, or across the title
        yield ExpectedAnswer(written, float(mass[answer]), float(overall[answer]), spans)


def candidate_answers(
    evidence: Evidence,
    overall: NDArray[np.float64],
    hits: Sequence[Hit],
    chosen: Sequence[int],
    locator: AnswerLocator,
) -> tuple[Answer, ...]:
    """Return the answers that chosen candidates contain, most likely first, one per normal form.

    `overall` (A,) is P(a) over all candidates: a reader of five passages knows what a hundred say.
    The support of the most likely spelling comes first.
    """
    shown = np.where(evidence.contains[list(chosen)].any(axis=0), overall, 0.0)
    order = np.argsort(-shown, kind="stable")[:_MAX_ANSWERS].tolist()
    kept = [answer for answer in order if shown[answer] >= _MIN_ANSWER]
    written: dict[int, list[tuple[str, Support]]] = {answer: [] for answer in kept}
    for place in chosen:
        passage = hits[place].passage
        contained = [answer for answer in kept if evidence.contains[place, answer]]
        found = locator.locate(passage, [evidence.answers[answer] for answer in contained])
        for answer, (text, spans) in zip(contained, found, strict=True):
            if text:  # else it runs from the title into the text
                written[answer].append((text, Support(passage, spans)))
    groups: dict[str, list[int]] = {}
    for answer in kept:
        if written[answer] and (name := normalize_answer(written[answer][0][0])):
            groups.setdefault(name, []).append(answer)
    answers = [
        Answer(
            written[group[0]][0][0],
            log(sum(overall[answer] for answer in group)),
            merged_support(one for answer in group for _, one in written[answer]),
        )
        for group in groups.values()
    ]
    return tuple(sorted(answers, key=lambda answer: -answer.log_prob))


def merged_support(supports: Iterable[Support]) -> tuple[Support, ...]:
    """Return each passage once, with all its spans."""
    spans: dict[Passage, set[tuple[int, int]]] = {}
    for one in supports:
        spans.setdefault(one.passage, set()).update(one.spans)
    return tuple(Support(passage, tuple(sorted(found))) for passage, found in spans.items())
