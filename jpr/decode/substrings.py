"""All runs of tokens in some passages, as a trie: what a grounded answer can be, token by token.

Node 0 is the empty run. The children of a node are the runs that are a token longer; they stand one
after another, by ascending token. Built for a question's passages in a few milliseconds: suffixes
are sorted once, and nodes are where sorted neighbours begin to differ.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Substrings:
    """The runs of at most so many tokens that begin and end where words do."""

    tokens: Whole
    """(n,) the last token of each node; -1 of node 0."""
    parents: Whole
    """(n,) the run without it; -1 of node 0."""
    first: Whole
    """(n,) its first child."""
    counts: Whole
    """(n,) how many children it has."""
    is_whole: Flags
    """(n,) whether the run may end here: somewhere a word ends with it."""
    below: Whole
    """(n,) how many runs that may end are this one or go on with it: one at least, but for 0."""

    @classmethod
    def of(cls, ids: Whole, lengths: Whole, inner: Flags, longest: int) -> "Substrings":
        """Build the trie of passages of `lengths` (P,) tokens each, end to end in `ids` (N,).

        `inner` (N,) tells which tokens go on with a word; a passage begins with a new one. No run
        has a token of -1.

        >>> ids = np.array([5, 6, 7, 5, 6])  # "5 67", "5 6"
        >>> inner = np.array([False, False, True, False, False])
        >>> trie = Substrings.of(ids, np.array([3, 2]), inner, 2)
        >>> [(trie.run(node), bool(trie.is_whole[node])) for node in range(1, len(trie))]
        [((5,), True), ((6,), True), ((5, 6), True), ((6, 7), True)]
        """
        begins, goes_on = _words(lengths, inner)
        starts = np.flatnonzero(begins & (ids >= 0))
        windows = _windows(ids, lengths, starts, longest)  # (M, longest), -1 after the end
        order = np.lexsort(windows.T[::-1])
        windows, starts = windows[order], starts[order]
        there = windows >= 0
        differs = np.ones_like(there)
        differs[1:] = np.logical_or.accumulate(windows[1:] != windows[:-1], axis=1)
        new = there & differs
        of_depth = new.sum(axis=0)
        base = 1 + np.cumsum(of_depth) - of_depth  # nodes are numbered depth by depth
        node = base + np.cumsum(new, axis=0) - 1  # (M, longest) of each suffix's beginnings
        total = 1 + int(new.sum())
        parent_of = np.concatenate([np.zeros((len(node), 1), np.int64), node[:, :-1]], axis=1)
        tokens, parents = (np.full(total, -1, dtype=np.int64) for _ in range(2))
        tokens[node[new]], parents[node[new]] = windows[new], parent_of[new]
        is_whole = np.zeros(total, dtype=np.bool_)
        after = starts[:, None] + np.arange(1, longest + 1)
        is_whole[node[there & ~goes_on[np.minimum(after, len(ids))]]] = True
        return _numbered(tokens, parents, is_whole, np.append(base, total))

    def __len__(self) -> int:
        return len(self.tokens)

    def run(self, node: int) -> tuple[int, ...]:
        """Return the tokens of a node."""
        found = []
        while node:
            found.append(int(self.tokens[node]))
            node = int(self.parents[node])
        return tuple(found[::-1])

    def child(self, node: int, token: int) -> int:
        """Return the node that is longer by a token; -1 where no passage has that run."""
        first, last = int(self.first[node]), int(self.first[node] + self.counts[node])
        at = first + int(np.searchsorted(self.tokens[first:last], token))
        return at if at < last and self.tokens[at] == token else -1


def _numbered(tokens: Whole, parents: Whole, is_whole: Flags, base: Whole) -> Substrings:
    """Leave out what leads to no whole run; nodes of depth d are those from base[d] on."""
    below = is_whole.astype(np.int64)
    for first, last in reversed(list(zip(base[:-1].tolist(), base[1:].tolist(), strict=True))):
        np.add.at(below, parents[first:last], below[first:last])
    alive = below > 0
    alive[0] = True
    number = np.cumsum(alive) - 1
    kept = np.append(-1, number[parents[1:][alive[1:]]])
    first_child = np.searchsorted(kept, np.arange(len(kept)))  # parents ascend
    counts = np.bincount(kept[1:], minlength=len(kept))
    return Substrings(tokens[alive], kept, first_child, counts, is_whole[alive], below[alive])


def _words(lengths: Whole, inner: Flags) -> tuple[Flags, Flags]:
    """Return where a word begins (N,), and where one goes on (N + 1,)."""
    goes_on = np.append(inner, False)
    goes_on[lengths.cumsum() - lengths] = False
    return ~goes_on[:-1], goes_on


def _windows(ids: Whole, lengths: Whole, starts: Whole, longest: int) -> Whole:
    """Return the tokens from each start on (M, longest); -1 after the end of its passage."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    last = lengths.cumsum()[row[starts]] if len(starts) else starts
    place = starts[:, None] + np.arange(longest)
    inside = place < last[:, None]
    found = np.where(inside, np.append(ids, -1)[np.minimum(place, len(ids))], -1)
    return np.where(np.logical_or.accumulate(found < 0, axis=1), -1, found)
