"""Tries of all token spans in some texts, on a device: what a grounded answer can be.

A node is a span, a root the empty span of a question. The children of a node are the spans that are
one token longer, consecutive and by ascending token. Those of all questions are built at once: the
suffixes of the texts are sorted, and nodes are where sorted neighbors begin to differ. The CPU
waits for the device four times, for any number of questions.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_BITS = 63  # bits of a sort key, without the sign


@dataclass(frozen=True, slots=True, eq=False)
class Tries:
    """The spans of limited length that begin and end where words do, of some questions.

    Nodes of a question are consecutive, the root first, short spans before longer ones.
    """

    tokens: Tensor  # (n,) the last token of each node; 0 of a root
    first: Tensor  # (n,) its first child
    counts: Tensor  # (n,) how many children it has
    is_whole: Tensor  # (n,) whether the span may end here: somewhere a word ends with it
    below: Tensor  # (n,) how many spans that may end start with this one; 0 only for roots
    roots: Tensor  # (Q,)
    widest: int  # largest number of children of a node
    largest: int  # largest number of nodes of a question

    @classmethod
    def of(
        cls, ids: Tensor, lengths: Tensor, texts: Tensor, inner: Tensor, longest: int
    ) -> "Tries":
        """Build the tries of texts of `lengths` (T,) tokens each, concatenated in `ids` (N,).

        The first `texts[0]` texts are those of the first question, and so on (Q,). `inner` (N,)
        marks tokens that continue a word; a text begins with a new word. No span contains a -1.

        >>> ids, lengths = torch.tensor([5, 6, 7, 5, 6, 8]), torch.tensor([3, 2, 1])
        >>> inner = torch.tensor([False, False, True, False, False, False])
        >>> tries = Tries.of(ids, lengths, torch.tensor([2, 1]), inner, 2)  # "5 67", "5 6"; "8"
        >>> tries.tokens.tolist(), tries.first.tolist(), tries.counts.tolist()
        ([0, 5, 6, 6, 7, 0, 8], [1, 3, 4, 5, 5, 6, 7], [2, 1, 1, 0, 0, 1, 0])
        """
        windows = _windows(ids, lengths, texts, inner, longest)
        order = _order(windows.question, windows.tokens, len(texts))
        return _tries(_Windows(*(part[order] for part in windows)), len(texts))


class _Windows(NamedTuple):
    """The tokens from each begin of a word on; and for each question one empty window."""

    question: Tensor  # (M,)
    tokens: Tensor  # (M, longest) token + 1; 0 after the end
    may_end: Tensor  # (M, longest) whether a word ends after it


def _windows(ids: Tensor, lengths: Tensor, texts: Tensor, inner: Tensor, longest: int) -> _Windows:
    """Return all windows, each up to the last end of a word within reach."""
    size, questions, device = len(ids), len(texts), ids.device
    text = torch.repeat_interleave(lengths, output_size=size)
    of_text = torch.repeat_interleave(texts, output_size=len(lengths))
    after = lengths.cumsum(0)
    ends = F.pad(~inner, (0, longest + 1), value=True)  # where a word may end
    ends[after - lengths] = True
    place = torch.arange(len(ends), device=device)
    here = place[:size]
    stop = torch.where(ids < 0, here, after[text])
    stop = stop.flip(0).cummin(0).values.flip(0)  # no span crosses the next of them
    end = (place * ends).cummax(0).values
    reach = end[torch.minimum(stop, here + longest)] - here  # length of the longest span from here
    starts = (ends[:size] & (reach > 0)).nonzero()[:, 0]
    start = torch.cat([starts.new_full((questions,), size), starts])
    width = torch.cat([starts.new_zeros(questions), reach[starts]])
    question = torch.cat([torch.arange(questions, device=device), of_text[text[starts]]])
    there = torch.arange(longest, device=device) < width[:, None]
    tokens = F.pad(ids + 1, (0, longest)).unfold(0, longest, 1)[start] * there
    return _Windows(question, tokens, ends.unfold(0, longest, 1)[start + 1] & there)


def _order(question: Tensor, tokens: Tensor, questions: int) -> Tensor:
    """Return the order by question, then tokens, of which several form one sort key."""
    bits = max(int(tokens.max()).bit_length(), 1)
    each = _BITS // bits
    padded = F.pad(tokens, (0, -tokens.shape[1] % each)).view(len(tokens), -1, each)
    shifts = torch.arange(each - 1, -1, -1, device=tokens.device) * bits
    keys = list((padded << shifts).sum(2).unbind(1))
    if each * bits + (questions - 1).bit_length() <= _BITS:
        keys[0] += question << each * bits
    else:
        keys.insert(0, question)
    order = torch.arange(len(question), device=question.device)
    for key in reversed(keys):
        order = order[key[order].argsort(stable=True)]
    return order


def _tries(windows: _Windows, questions: int) -> Tries:
    """Return the tries of sorted windows, whose prefixes, the empty one first, are the nodes."""
    question, tokens, may_end = windows
    rows = torch.cat([question[:, None] + 1, tokens], 1)
    differs = (rows[1:] != rows[:-1]).cumsum(1) > 0
    new = F.pad(differs, (0, 0, 1, 0), value=True) & (rows > 0)  # (M, 1 + longest)
    node, roots, sizes = _numbers(question, new, questions)
    total, largest = torch.stack([sizes.sum(), sizes.max()]).tolist()
    there = F.pad(tokens > 0, (1, 0), value=True)
    node = node.where(there, total)  # one more, for all absent ones
    longer, none = node[:, 1:], node.new_zeros(total + 1)
    is_whole = none.bool().index_fill(0, longer.where(may_end, total).flatten(), True)
    ended = new & is_whole[node]  # each span once, at its first window
    beyond = ended.flip(1).cumsum(1).flip(1)
    children = new[:, 1:].long().flatten()
    counts = none.scatter_add(0, node[:, :-1].flatten(), children)[:-1]
    owner = torch.repeat_interleave(sizes, output_size=total)
    return Tries(
        tokens=none.scatter(0, longer.flatten(), tokens.flatten() - 1)[:-1],
        first=counts.cumsum(0) - counts + owner + 1,  # roots are no children
        counts=counts,
        is_whole=is_whole[:-1],
        below=none.scatter_add(0, node.flatten(), beyond.flatten())[:-1],
        roots=roots,
        widest=int(counts.max()),
        largest=largest,
    )


def _numbers(question: Tensor, new: Tensor, questions: int) -> tuple[Tensor, Tensor, Tensor]:
    """Number nodes by question and length; return those of all prefixes, roots and sizes."""
    each = torch.zeros(questions, new.shape[1], dtype=torch.long, device=new.device)
    each.index_add_(0, question, new.long())  # nodes of each length of a question
    before = (each.flatten().cumsum(0) - each.flatten()).view_as(each)
    earlier = each.cumsum(0) - each
    return new.cumsum(0) - 1 + (before - earlier)[question], before[:, 0], each.sum(1)
