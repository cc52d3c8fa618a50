"""What a chosen passage adds: the answers that its prefix lacks, where they stand in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.decode import Covering, Decoded, Node
from jpr.encode.tokenizer import without_surrogates
from jpr.rerank.evidence import Words
from jpr.types import Answer, Passage, Ranking

_MOST = 5
_LEAST = 0.01
"""Answers less likely than this are not worth telling."""


@dataclass(frozen=True, slots=True)
class Added:
    """An answer that a passage may add."""

    text: str
    """As it is written there."""
    probability: float
    """P(a | prefix), over all answers that may come next: for what the passage was chosen."""
    overall: float
    """P(a), before anything is chosen: to be compared with `Choice.answers`."""
    spans: tuple[tuple[int, int], ...]
    """From where to where in the passage's text; nowhere where it is in the title alone."""


class Choice(NamedTuple):
    """The passages chosen for a question, and how."""

    ranking: Ranking
    decoded: Decoded
    """Its nodes number the question's candidates from 0."""
    adds: tuple[tuple[Added, ...], ...] = ()
    """Of every node what its passage adds; empty where the model does not read answers."""
    worths: tuple[float, ...] = ()
    """Of every node what `jpr.rerank.stop` stops by: log P that its passage adds the next answer,
    or, where the model does not read answers, its score."""
    answers: tuple[Answer, ...] = ()
    """What all candidates tell and the chosen ones contain (`jpr.rerank.told`)."""


class Places:
    """Finds answers in the texts of passages, as whole words."""

    def __init__(self, tokenizer: Tokenizer, words: Words) -> None:
        """Take the tokenizer that answers are tokens of, and what is known of its words."""
        self._tokenizer, self._words = tokenizer, words

    def of(
        self, passage: Passage, answers: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
        """Yield how a passage writes each answer, and where in its text.

        What is in its title alone has no place there; what is nowhere is written "".
        """
        if not answers:
            return
        title, text = (self._split(field) for field in (passage.title, passage.text))
        for tokens in answers:
            known = self._words.unknown not in tokens  # unlike words have that token
            spans, named = (one.spans(tokens) if known else () for one in (text, title))
            if spans:
                yield passage.text[slice(*spans[0])], spans
            else:
                yield passage.title[slice(*named[0])] if named else "", ()

    def decoded(self, tokens: tuple[int, ...]) -> str:
        """Return tokens as a text."""
        return str(self._tokenizer.decode(list(tokens)))

    def _split(self, text: str) -> "_Split":
        found = self._tokenizer.encode(without_surrogates(text), add_special_tokens=False)
        ids = np.array(found.ids, dtype=np.int64)
        goes_on = np.append(self._words.going_on(ids), False)
        goes_on[0] = False
        return _Split(text, ids, found.offsets, goes_on)


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """A text and its tokens."""

    text: str
    ids: NDArray[np.int64]
    offsets: Sequence[tuple[int, int]]
    goes_on: NDArray[np.bool_]
    """(N + 1,) whether a word goes on with each token; False at the end."""

    def spans(self, tokens: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return where these tokens stand, as whole words."""
        size = len(tokens)
        found = []
        for at in np.flatnonzero(self.ids[: len(self.ids) - size + 1] == tokens[0]).tolist():
            same = tuple(self.ids[at : at + size].tolist()) == tokens
            if same and not self.goes_on[at] and not self.goes_on[at + size]:
                found.append(self._trimmed(self.offsets[at][0], self.offsets[at + size - 1][1]))
        return tuple(span for span in found if span[0] < span[1])

    def _trimmed(self, first: int, last: int) -> tuple[int, int]:
        """Leave out spaces, which some tokenizers count in; take in marks of the last letter."""
        while last < len(self.text) and category(self.text[last])[0] == "M":
            last += 1
        inside = self.text[first:last]
        first += len(inside) - len(inside.lstrip())
        return first, max(first, last - (len(inside) - len(inside.rstrip())))


def added(
    covering: Covering, question: int, decoded: Decoded, given: Ranking, places: Places
) -> tuple[tuple[Added, ...], ...]:
    """Return what the passage of every node adds; nothing where it was chosen before."""
    return tuple(
        tuple(_added(covering, question, node, given, places)) if node.is_new else ()
        for node in decoded.nodes
    )


def _added(
    covering: Covering, question: int, node: Node, given: Ranking, places: Places
) -> Iterator[Added]:
    evidence, overall = covering.evidence[question], covering.overall(question)
    mass = covering.mass(question, node.prefix) * evidence.holds[node.passage]
    likely = np.argsort(-mass, kind="stable")[:_MOST].tolist()
    wanted = [answer for answer in likely if mass[answer] >= _LEAST]
    passage = given.hits[node.passage].passage
    found = places.of(passage, [evidence.answers[answer] for answer in wanted])
    for answer, (text, spans) in zip(wanted, found, strict=True):
        written = text or places.decoded(evidence.answers[answer])  # it is cut, or goes on there
        yield Added(written, float(mass[answer]), float(overall[answer]), spans)
