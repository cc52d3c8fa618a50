"""Rows of unlike length in few rectangles, so that little is computed on padding.

Rows are sorted by length and cut into groups; each group is padded to its longest row, and the
groups are laid end to end. Linear layers take all of it at once, attention takes group by group.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jpr.errors import DataError

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grouping:
    """How fine to group, which depends on the device."""

    multiple: int
    """Groups are padded to a multiple of this many tokens, as attention kernels like it."""
    price: int
    """What one more group costs, in tokens that might be computed meanwhile."""
    budget: int
    """How many tokens may be laid out at once; longer inputs go in parts."""

    @classmethod
    def of(cls, device: torch.device) -> "Grouping":
        """Return what suits a device: a group costs a GPU one launch of a kernel per layer."""
        return cls(8, 128, 65_536) if device.type == "cuda" else cls(1, 8, 8_192)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of rows laid end to end go."""

    shapes: tuple[tuple[int, int], ...]
    """Rows and padded length of each group."""
    lengths: Tensor
    """The length of each row, group by group (B,)."""
    slots: Tensor
    """Where each token goes (N,)."""

    @property
    def size(self) -> int:
        """How many tokens there are, with padding."""
        return sum(rows * longest for rows, longest in self.shapes)


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """Return which places of padded rows count (B, T)."""
    return torch.arange(longest, device=lengths.device)[None] < lengths[:, None]


def pad_rows(values: Tensor, places: Tensor) -> Tensor:
    """Put rows laid end to end (N, …) into the places that count (B, T), zeros elsewhere."""
    rows = values.new_zeros(*places.shape, *values.shape[1:])
    rows[places] = values
    return rows


def counts(lengths: Tensor, total: int) -> Whole:
    """Return the lengths of rows on the CPU, after a look at whether they make up the whole."""
    found: Whole = lengths.cpu().numpy().astype(np.int64)
    if int(found.sum()) != total or (found < 0).any():
        raise DataError(f"rows of {int(found.sum())} tokens in all do not make up {total}")
    return found


def parts(lengths: Whole, budget: int) -> list[slice]:
    """Cut rows into runs of at most `budget` tokens each, or of one row that is longer."""
    ends = lengths.cumsum()
    found, first = [], 0
    while first < len(lengths):
        before = ends[first] - lengths[first]
        last = max(first + 1, int(np.searchsorted(ends, before + budget, side="right")))
        found.append(slice(first, last))
        first = last
    return found


def in_parts(
    ids: Tensor, lengths: Whole, budget: int, work: Callable[[Tensor, Whole], Tensor]
) -> Tensor:
    """Map rows laid end to end, ids (N,), to (N, d), so many tokens at a time."""
    cut = [lengths[part] for part in parts(lengths, budget)]
    tokens = torch.split(ids, [int(rows.sum()) for rows in cut])
    found = [work(some, rows) for some, rows in zip(tokens, cut, strict=True)]
    return found[0] if len(found) == 1 else torch.cat(found)


def layout(lengths: Whole, grain: Grouping) -> Layout:
    """Group rows with the least padding, where a group more has its price."""
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    firsts = _cuts(-(-ordered // grain.multiple) * grain.multiple, grain.price)
    rows = np.diff([*firsts, len(order)])
    lasts = np.array([*firsts[1:], len(order)]) - 1
    longest = -(-ordered[lasts] // grain.multiple) * grain.multiple
    bases = np.cumsum(rows * longest) - rows * longest
    group = np.repeat(np.arange(len(rows)), rows)
    starts = np.empty_like(lengths)
    starts[order] = (
        bases[group] + (np.arange(len(order)) - np.array(firsts)[group]) * longest[group]
    )
    shift = starts - (lengths.cumsum() - lengths)
    slots = np.repeat(shift, lengths) + np.arange(lengths.sum())
    shapes = tuple((int(n), int(t)) for n, t in zip(rows, longest, strict=True))
    return Layout(shapes, torch.from_numpy(ordered), torch.from_numpy(slots))


def _cuts(ordered: Whole, price: int) -> list[int]:
    """Return where each group begins: the cheapest cuts of ascending lengths.

    The cheapest groups of the first rows are the cheapest of fewer rows and one group more.
    """
    distinct, firsts = np.unique(ordered, return_index=True)
    ends = np.append(firsts, len(ordered))
    cost = np.zeros(len(ends), dtype=np.int64)
    chosen = np.zeros(len(ends), dtype=np.int64)
    for last in range(1, len(ends)):
        costs = cost[:last] + (ends[last] - ends[:last]) * distinct[last - 1] + price
        chosen[last] = costs.argmin()
        cost[last] = costs[chosen[last]]
    cuts, at = [], len(ends) - 1
    while at > 0:
        at = int(chosen[at])
        cuts.append(int(ends[at]))
    return cuts[::-1]


def run_block(
    block: nn.Module, x: Tensor, attend: Callable[..., Tensor], checkpointing: bool
) -> Tensor:
    """Take vectors through a block; with checkpointing, what is inside is computed again later."""
    if checkpointing and torch.is_grad_enabled():
        again: Tensor = checkpoint(block, x, attend, use_reentrant=False)
        return again
    out: Tensor = block(x, attend)
    return out
