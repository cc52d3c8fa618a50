"""What a chosen passage adds: the answers that its prefix lacks, where they stand in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tokenizers import Encoding, Tokenizer

from jpr.decode import Covering, Decoded, Evidence, Node
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
    """P(a | prefix), over all answers that may come next."""
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
        self._tokenizer, self._inner = tokenizer, words.inner

    def of(
        self, passage: Passage, answers: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
        """Yield how each answer is written in a passage, and where in its text."""
        if not answers:
            return
        title, text = (
            self._tokenizer.encode(field, add_special_tokens=False)
            for field in (passage.title, passage.text)
        )
        for tokens in answers:
            spans = self._runs(passage.text, text, tokens)
            named = self._runs(passage.title, title, tokens)
            if spans:
                yield passage.text[slice(*spans[0])], spans
            elif named:
                yield passage.title[slice(*named[0])], ()
            else:  # across the end of the title, or cut
                yield self._tokenizer.decode(list(tokens)), ()

    def _runs(
        self, text: str, found: Encoding, tokens: tuple[int, ...]
    ) -> tuple[tuple[int, int], ...]:
        ids, offsets, size = found.ids, found.offsets, len(tokens)
        spans = (
            (offsets[at][0], offsets[at + size - 1][1])
            for at in range(len(ids) - size + 1)
            if ids[at] == tokens[0] and tuple(ids[at : at + size]) == tokens
            if not self._inner[ids[at + size : at + size + 1]].any()  # no word goes on
        )
        # Some tokenizers count the space before a word as part of it.
        return tuple((last - len(text[first:last].lstrip()), last) for first, last in spans)


def added(
    covering: Covering, question: int, decoded: Decoded, given: Ranking, places: Places
) -> tuple[tuple[Added, ...], ...]:
    """Return what the passage of every node adds; nothing where it was chosen before."""
    evidence = covering.evidence[question]
    return tuple(
        tuple(_added(covering, evidence, (question, node), given, places)) if node.is_new else ()
        for node in decoded.nodes
    )


def _added(
    covering: Covering,
    evidence: Evidence,
    at: tuple[int, Node],
    given: Ranking,
    places: Places,
) -> Iterator[Added]:
    question, node = at
    mass = covering.mass(question, node.prefix) * evidence.holds[node.passage]
    likely = np.argsort(-mass, kind="stable")[:_MOST].tolist()
    wanted = [answer for answer in likely if mass[answer] >= _LEAST]
    passage = given.hits[node.passage].passage
    found = places.of(passage, [evidence.answers[answer] for answer in wanted])
    for answer, (text, spans) in zip(wanted, found, strict=True):
        yield Added(text, float(mass[answer]), spans)
