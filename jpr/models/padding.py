"""Rows of different lengths: masks, padding, and groups that waste little on padding.

Rows are sorted by length and cut into groups; each group is padded to its longest row, and the
groups are concatenated. Linear layers take all of them at once, attention takes group by group.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jpr.errors import DataError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grouping:
    """How finely to group, which depends on the device."""

    multiple: int  # groups are padded to a multiple of this, as attention kernels prefer
    price: int  # the cost of one more group, in tokens that could be computed in that time
    budget: int  # tokens computed at once; longer inputs go in parts

    @classmethod
    def of(cls, device: torch.device) -> "Grouping":
        """Return what suits a device: a group costs a GPU one kernel launch per layer."""
        return cls(8, 128, 65_536) if device.type == "cuda" else cls(1, 8, 8_192)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of concatenated rows go."""

    shapes: tuple[tuple[int, int], ...]  # rows and padded length of each group
    lengths: Tensor  # (B,) the length of each row, group by group
    slots: Tensor  # (N,) where each token goes

    @property
    def size(self) -> int:
        """The number of tokens with padding."""
        return sum(rows * longest for rows, longest in self.shapes)


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """Return which places of padded rows hold a token (B, T)."""
    return torch.arange(longest, device=lengths.device)[None] < lengths[:, None]


def pad_rows(values: Tensor, mask: Tensor) -> Tensor:
    """Put concatenated rows (N, …) where the mask (B, T) is set, zeros elsewhere."""
    rows = values.new_zeros(*mask.shape, *values.shape[1:])
    rows[mask] = values
    return rows


def row_lengths(lengths: Tensor, total: int) -> Ints:
    """Return the lengths of rows on the CPU, after checking that they sum up to the total."""
    found: Ints = lengths.cpu().numpy().astype(np.int64)
    if int(found.sum()) != total or (found < 0).any():
        raise DataError(f"rows of {int(found.sum())} tokens in all do not make up {total}")
    return found


def parts(lengths: Ints, budget: int) -> list[slice]:
    """Cut rows, or other sizes, into runs of at most `budget` each, or of one larger one."""
    ends = lengths.cumsum()
    found, first = [], 0
    while first < len(lengths):
        before = ends[first] - lengths[first]
        last = max(first + 1, int(np.searchsorted(ends, before + budget, side="right")))
        found.append(slice(first, last))
        first = last
    return found


def in_parts(ids: Tensor, lengths: Ints, work: Callable[[Tensor, Ints], Tensor]) -> Tensor:
    """Map concatenated rows, ids (N,), to (N, d), as many at a time as suits the device."""
    cut = [lengths[part] for part in parts(lengths, Grouping.of(ids.device).budget)]
    tokens = torch.split(ids, [int(rows.sum()) for rows in cut])
    found = [work(some, rows) for some, rows in zip(tokens, cut, strict=True)]
    return found[0] if len(found) == 1 else torch.cat(found)


def layout(lengths: Ints, grouping: Grouping) -> Layout:
    """Group rows at the least cost of padding and groups."""
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    rounded = -(-ordered // grouping.multiple) * grouping.multiple
    firsts = _cuts(rounded, grouping.price)
    rows = np.diff([*firsts, len(order)])
    longest = rounded[np.array([*firsts[1:], len(order)]) - 1]
    bases = np.cumsum(rows * longest) - rows * longest
    group = np.repeat(np.arange(len(rows)), rows)
    within = np.arange(len(order)) - np.array(firsts)[group]
    starts = np.empty_like(lengths)
    starts[order] = bases[group] + within * longest[group]
    shift = starts - (lengths.cumsum() - lengths)
    slots = np.repeat(shift, lengths) + np.arange(lengths.sum())
    shapes = tuple((int(n), int(t)) for n, t in zip(rows, longest, strict=True))
    return Layout(shapes, torch.from_numpy(ordered), torch.from_numpy(slots))


def _cuts(ordered: Ints, price: int) -> list[int]:
    """Return where each group begins: the cheapest cuts of ascending lengths.

    Dynamic programming: the cheapest groups of the first rows are those of fewer rows, and one.
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


def run_blocks(
    blocks: nn.ModuleList, x: Tensor, attend: Callable[..., Tensor], checkpointing: bool
) -> Tensor:
    """Run blocks; with checkpointing, the backward pass computes their activations again."""
    for block in blocks:
        if checkpointing and torch.is_grad_enabled():
            x = checkpoint(block, x, attend, use_reentrant=False)
        else:
            x = block(x, attend)
    return x
