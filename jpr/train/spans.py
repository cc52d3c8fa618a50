"""Where answers stand among the tokens of passages.

Tokens of 16 bits are searched as bytes, so that nothing is done token by token.
"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import regex
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.encode.tokens import first_tokens
from jpr.text import PATTERN_FLAGS, is_weak, pattern_source
from jpr.train.pack import NO_SPAN
from jpr.types import Passage, Question

_LONGEST = int(np.iinfo(np.uint8).max)
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]")
_BEGINNINGS = ("▁", "Ġ")
"""What tokens at the beginning of a word begin with, where the others have no mark ("##")."""
_TIME_LIMIT = 1.0

Spans = tuple[NDArray[np.uint16], NDArray[np.uint8]]


class SpanFinder:
    """Finds the spellings of answers in tokenised passages."""

    def __init__(self, tokenizer: Tokenizer, *, strict: bool = False) -> None:
        """Take the passages' own tokenizer; `strict` ignores lone numerals and stop words."""
        self._tokenizer, self._strict = tokenizer, strict
        self._unknown = _unknown(tokenizer)
        self._inner = _inner(tokenizer.get_vocab())

    def find(
        self,
        tokens: NDArray[np.uint16],
        bounds: NDArray[np.int64],
        spellings: Sequence[Sequence[str]],
    ) -> Spans:
        """Return where the first of some spellings begins in a passage, and its tokens.

        `bounds` (V, 3) say where in `tokens` the passage's title and text begin and where it ends.
        """
        needles = self._needles(chain.from_iterable(spellings))
        offsets = np.full(len(bounds), NO_SPAN, dtype=np.uint16)
        lengths = np.zeros(len(bounds), dtype=np.uint8)
        flat = np.asarray(tokens)  # slices of a map are slow
        for i, ((title, text, end), names) in enumerate(
            zip(bounds.tolist(), spellings, strict=True)
        ):
            wanted = [needles[name] for name in names if name in needles]
            found = self._first(flat[title:text].tobytes(), wanted)
            if not found:
                found = self._first(flat[text:end].tobytes(), wanted, text - title)
            if found:
                offsets[i], lengths[i] = found
        return offsets, lengths

    def _needles(self, spellings: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes that stand for each spelling, but for those that prove nothing."""
        names = [name for name in dict.fromkeys(spellings) if not (self._strict and is_weak(name))]
        ids = first_tokens(self._tokenizer, names, _LONGEST + 1)
        return {
            name: np.array(found, dtype=np.uint16).tobytes()
            for name, found in zip(names, ids, strict=True)
            if 0 < len(found) <= _LONGEST and self._unknown not in found
        }

    def _first(
        self, field: bytes, needles: Sequence[bytes], before: int = 0
    ) -> tuple[int, int] | None:
        """Return the offset and the length of what comes first, of several there the longest."""
        found = [
            (at, -len(needle)) for needle in needles if (at := self._place(field, needle)) >= 0
        ]
        if not found:
            return None
        at, negated = min(found)
        return before + at // 2, -negated // 2

    def _place(self, field: bytes, needle: bytes) -> int:
        """Return where whole tokens that end with a word begin; -1 if nowhere."""
        at = field.find(needle)
        while at >= 0:
            end = at + len(needle)
            if at % 2 == 0 and field[end : end + 2] not in self._inner:
                return at
            at = field.find(needle, at + 1)
        return -1


def spellings(question: Question, answer: int, passage: Passage) -> Sequence[str]:
    """Return how an answer may be written; where an expression says it, as it is in the passage."""
    if question.answers:
        return question.answers[answer]
    return [
        found
        for text in (passage.title, passage.text)
        if (found := _matched(_pattern(question), text))
    ]


@lru_cache(maxsize=64)  # those of one question come one after another
def _pattern(question: Question) -> regex.Pattern[str]:
    return regex.compile(pattern_source(question), PATTERN_FLAGS)


def _matched(pattern: regex.Pattern[str], text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    try:
        found = pattern.search(decomposed, timeout=_TIME_LIMIT, concurrent=False)
    except TimeoutError:
        return ""
    return str(found.group()) if found else ""


def _unknown(tokenizer: Tokenizer) -> int | None:
    """Return the token for words without one, which may stand for any."""
    model = json.loads(tokenizer.to_str())["model"]
    token = model.get("unk_token")
    found: int | None = model.get("unk_id") if token is None else tokenizer.token_to_id(token)
    return found


def _inner(vocabulary: Mapping[str, int]) -> frozenset[bytes]:
    """Return the tokens, as bytes, before which a word has not ended."""
    if any(token.startswith("##") for token in vocabulary):
        rest = {token[2:]: id for token, id in vocabulary.items() if token.startswith("##")}
    elif any(token.startswith(_BEGINNINGS) for token in vocabulary):
        rest = {token: id for token, id in vocabulary.items() if not token.startswith(_BEGINNINGS)}
    else:
        rest = {}
    ids = [id for token, id in rest.items() if _WORD.match(token)]
    return frozenset(id.to_bytes(2, sys.byteorder) for id in ids)
