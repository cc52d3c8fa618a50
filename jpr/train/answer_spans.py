"""Where answers are among the tokens of passages.

Tokens of 16 bits are searched as bytes, so that no loop runs over tokens.
"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.encode.tokenizer import continuation_tokens, truncated_tokens
from jpr.text import answer_pattern, is_weak
from jpr.types import Passage, Question

_LONGEST = int(np.iinfo(np.uint8).max)
_TIME_LIMIT = 1.0

Found = tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint8]]
"""Covers, ascending, and for each occurrence its offset and its length."""


class SpanFinder:
    """Finds the spellings of answers in tokenized passages."""

    def __init__(self, tokenizer: Tokenizer, *, strict: bool = False) -> None:
        """Take the passages' own tokenizer; `strict` ignores lone numerals and stop words."""
        self._tokenizer, self._strict = tokenizer, strict
        model = json.loads(tokenizer.to_str())["model"]
        word = model.get("unk_token")
        self._unknown = model.get("unk_id") if word is None else tokenizer.token_to_id(word)
        """The token of words outside the vocabulary, which may stand for any."""
        inner = continuation_tokens(tokenizer.get_vocab())
        self._inner = frozenset(token.to_bytes(2, sys.byteorder) for token in inner)

    def find(
        self,
        tokens: NDArray[np.uint16],
        bounds: NDArray[np.int64],
        spellings: Sequence[Sequence[str]],
    ) -> Found:
        """Return every occurrence of a spelling in its passage.

        `bounds` (V, 3) are where in `tokens` each passage's title and text start and where it ends.
        Offsets count from the start of the title. Occurrences in one passage do not overlap: the
        first counts, of several at one place the longest.
        """
        names = list(dict.fromkeys(chain.from_iterable(spellings)))
        ids = truncated_tokens(self._tokenizer, names, _LONGEST + 1)
        needles = {
            name: np.array(word, dtype=np.uint16).tobytes()
            for name, word in zip(names, ids, strict=True)
            if 0 < len(word) <= _LONGEST
            and self._unknown not in word
            and not (self._strict and is_weak(name))
        }
        found: list[tuple[int, int, int]] = []
        flat = np.asarray(tokens)  # slices of a memory map are slow
        for i, (title, text, end) in enumerate(bounds.tolist()):
            own = {needles[name] for name in spellings[i] if name in needles}
            for first, last in ((title, text), (text, end)):
                for at, length in self._occurrences(flat[first:last].tobytes(), own):
                    found.append((i, first - title + at, length))
        covers, offsets, lengths = np.array(found, dtype=np.int64).reshape(-1, 3).T
        return covers, offsets.astype(np.uint16), lengths.astype(np.uint8)

    def _occurrences(self, field: bytes, needles: Iterable[bytes]) -> list[tuple[int, int]]:
        """Return the offsets and lengths, in tokens, of occurrences that do not overlap."""
        found = []
        for needle in needles:
            at = field.find(needle)
            while at >= 0:
                end = at + len(needle)
                if at % 2 == 0 and field[end : end + 2] not in self._inner:
                    found.append((at // 2, -len(needle) // 2))  # negated: the longest sorts first
                at = field.find(needle, at + 1)
        kept, end = [], 0
        for at, negated in sorted(found):
            if at >= end:
                end = at - negated
                kept.append((at, -negated))
        return kept


def spellings(question: Question, answer: int, passage: Passage) -> Sequence[str]:
    """Return the spellings of an answer; of a regular expression, its matches in the passage."""
    if question.answers:
        return question.answers[answer]
    pattern, found = answer_pattern(question), []
    for text in (passage.title, passage.text):
        decomposed = unicodedata.normalize("NFD", text)
        with suppress(TimeoutError):  # what was found before stays
            for match in pattern.finditer(decomposed, timeout=_TIME_LIMIT, concurrent=False):
                found.append(str(match.group()))
    return list(dict.fromkeys(found))
