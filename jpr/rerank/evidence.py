"""The answers that candidates may have, from a model's log-odds of spans.

A model gives every span of a passage its own probability of being an answer. The most likely spans
of each passage are taken, of those that overlap the likeliest; equal token sequences are one
answer, whichever passages they are from. A passage contains an answer if it has the same tokens in
a row, as whole words. Token sequences are compared by 64-bit hashes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.decode.answers import Evidence
from jpr.encode.tokenizer import continuation_tokens

SPANS = 16  # spans considered per passage
_IGNORABLE = ("the", "a", "an", "The", "A", "An", *",.\"'();:-–")
"""Words that may surround an answer and are no part of it."""

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]
Hashes = NDArray[np.uint64]
_MIXER, _BASE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FILTER_BITS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Where words begin and end among a tokenizer's tokens."""

    inner: Flags  # (V,) whether the token continues a word
    ignorable: Flags  # (V,) whether it is an article or a mark that may surround an answer
    lone: int = -1
    """The token that only begins a word ("▁"), continued by the next token; -1 for none."""
    unknown: int = -1  # the unknown token; -1 for none

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Vocabulary":
        """Read the vocabulary of a tokenizer."""
        known = tokenizer.get_vocab()
        inner, ignorable = (np.zeros(max(known.values()) + 1, dtype=np.bool_) for _ in range(2))
        inner[list(continuation_tokens(known))] = True
        words = (spelling for word in _IGNORABLE for spelling in (word, f"▁{word}"))
        ignorable[[known[word] for word in words if word in known]] = True
        unknown = next((known[w] for w in ("[UNK]", "<unk>") if w in known), -1)
        inner[known.get("<unk>", [])] = True  # the token before it may be half a word
        lone = known.get("▁", -1)
        # the "a" of "▁past a", one word, is not an article
        return cls(inner, ignorable & ~inner, lone, unknown)

    def continues(self, ids: Whole) -> Flags:
        """Return which tokens (N,) of a sequence continue a word."""
        found = self.inner[ids]
        found[1:] |= ids[:-1] == self.lone
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PassageTokens:
    """The tokens of a question's candidates, passage after passage, without the question."""

    ids: Whole  # (N,)
    lengths: Whole  # (C,)
    spans: Floats  # (N, L) log-odds that the span of 1, …, L tokens from here is an answer


def find_evidence(passages: PassageTokens, vocabulary: Vocabulary, spans: int = SPANS) -> Evidence:
    """Return the answers of a question's candidates."""
    runs = _Runs(passages, vocabulary)
    first, last, log_odds = _most_likely(passages, spans)  # (C, spans) each, likeliest first
    first, last = runs.trimmed(first, last)
    kept = _apart(first, last, (log_odds > -np.inf) & runs.are_words(first, last))
    row = np.nonzero(kept)[0]
    first, last, prob = first[kept], last[kept], 1 / (1 + np.exp(-log_odds[kept]))
    names, example, which = np.unique(
        runs.names(first, last), return_index=True, return_inverse=True
    )
    first, last = first[example], last[example]
    probs = np.zeros((len(passages.lengths), len(names)), dtype=np.float32)
    np.maximum.at(probs, (row, which), prob)
    bounds = zip(first.tolist(), last.tolist(), strict=True)
    answers = tuple(tuple(passages.ids[begin:end].tolist()) for begin, end in bounds)
    return Evidence(answers, probs, runs.contained(names, np.unique(last - first)))


def _most_likely(passages: PassageTokens, count: int) -> tuple[Whole, Whole, Floats]:
    """Return start, end and log-odds of each passage's most likely spans (C, count) in order."""
    lengths, (_, widest) = passages.lengths, passages.spans.shape
    longest = int(lengths.max(initial=1))
    padded = np.full((len(lengths), longest, widest), -np.inf, dtype=np.float32)
    padded[np.arange(longest) < lengths[:, None]] = passages.spans
    flat = padded.reshape(len(lengths), longest * widest)
    rows = np.arange(len(lengths))[:, None]
    chosen = _largest(flat, count)
    chosen = chosen[rows, np.argsort(-flat[rows, chosen], axis=1, kind="stable")]
    log_odds = flat[rows, chosen]
    are_spans = log_odds > -np.inf  # a passage may have fewer
    first = np.where(are_spans, (lengths.cumsum() - lengths)[:, None] + chosen // widest, 0)
    return first, np.where(are_spans, first + chosen % widest + 1, 0), log_odds


def _apart(first: Whole, last: Whole, kept: Flags) -> Flags:
    """Return which spans (C, S), likeliest first, overlap no likelier one that is kept."""
    kept = kept.copy()
    for at in range(1, kept.shape[1]):
        overlap = (first[:, at, None] < last[:, :at]) & (first[:, :at] < last[:, at, None])
        kept[:, at] &= ~(overlap & kept[:, :at]).any(axis=1)
    return kept


def _largest(values: Floats, count: int) -> Whole:
    """Return where the largest `count` values of each row are, in any order."""
    count = min(count, values.shape[1])
    found: Whole = np.argpartition(-values, count - 1, axis=1)[:, :count]
    return found


class _Runs:
    """Token sequences within passages, identified by hashes."""

    def __init__(self, passages: PassageTokens, vocabulary: Vocabulary) -> None:
        ids, lengths, longest = passages.ids, passages.lengths, passages.spans.shape[1]
        self._row = np.repeat(np.arange(len(lengths)), lengths)
        self._passages = len(lengths)
        self._inside = np.append(vocabulary.continues(ids), False)
        self._inside[lengths.cumsum() - lengths] = False
        """(N + 1,) whether each token continues a word of its passage."""
        self._ignorable = vocabulary.ignorable[ids]
        self._unknown = np.append(0, np.cumsum(ids == vocabulary.unknown))
        mixed = (ids.astype(np.uint64) + np.uint64(1)) * _MIXER
        mixed ^= mixed >> np.uint64(32)
        self._hashes = np.zeros((longest + 1, len(ids)), dtype=np.uint64)
        """Of the runs of 0, 1, 2, … tokens from each place: Σ token · base^place."""
        for size in range(1, min(longest, len(ids)) + 1):
            longer, added = self._hashes[size, : 1 - size or None], mixed[size - 1 :]
            np.multiply(added, _BASE ** np.uint64(size - 1), out=longer)
            longer += self._hashes[size - 1, : len(longer)]

    def trimmed(self, first: Whole, last: Whole) -> tuple[Whole, Whole]:
        """Strip ignorable words from both ends; a run of nothing else becomes empty."""
        places = np.arange(len(self._inside))
        skipped = np.append(self._ignorable & ~self._inside[1:], False)  # not the "a" of "a ##bc"
        following = np.where(skipped, places[-1], places)
        following = np.minimum.accumulate(following[::-1])[::-1]
        preceding = np.maximum.accumulate(np.where(np.append(False, self._ignorable), 0, places))
        return following[first], preceding[last]

    def are_words(self, first: Whole, last: Whole) -> Flags:
        """Return which runs are whole words, not empty, and without unknown tokens."""
        known = self._unknown[first] == self._unknown[last]
        found: Flags = (first < last) & known & ~self._inside[first] & ~self._inside[last]
        return found

    def names(self, first: Whole, last: Whole) -> Hashes:
        """Return the hash of each run."""
        found: Hashes = self._hashes[last - first, first]
        return found

    def contained(self, names: Hashes, sizes: Whole) -> Flags:
        """Return which passages contain which runs (C, A), given the lengths of the runs.

        The names must ascend. A filter on their high bits skips most positions.
        """
        found = np.zeros((self._passages, len(names)), dtype=np.bool_)
        known = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        known[_high_bits(names)] = True
        for size in sizes.tolist():
            here = self._hashes[size, : len(self._row) - size + 1]
            at = np.flatnonzero(known[_high_bits(here)])
            which = np.minimum(np.searchsorted(names, here[at]), len(names) - 1)
            same = (names[which] == here[at]) & (self._row[at] == self._row[at + size - 1])
            same &= self.are_words(at, at + size)
            found[self._row[at[same]], which[same]] = True
        return found


def _high_bits(hashes: Hashes) -> Whole:
    """Return the highest bits, which depend on every token."""
    return (hashes >> np.uint64(64 - _FILTER_BITS)).view(np.int64)  # a view, as indices are signed
