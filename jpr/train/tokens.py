"""Many tokenised texts in one flat array, put together into batches on the device itself.

Tokens are kept in 16 bits, as int16 since devices know no uint16: half the room, the same ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_tensor(*pieces: NDArray[np.uint16]) -> Tensor:
    """Return token ids, pieces end to end, as a tensor that `laid_out` takes from."""
    whole = np.concatenate(pieces, dtype=np.uint16)
    return torch.from_numpy(whole.view(np.int16))


def laid_out(tokens: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """Return pieces of the tokens end to end: `lengths` (R, S) from `starts` (R, S) on.

    >>> pieces = laid_out(as_tensor(np.arange(9, dtype=np.uint16)), *torch.tensor([[4, 0], [2, 3]]))
    >>> pieces.tolist()
    [4, 5, 0, 1, 2]
    """
    sizes = lengths.flatten()
    total = int(sizes.sum())
    shift = starts.flatten() - (sizes.cumsum(0) - sizes)
    at = torch.repeat_interleave(shift, sizes, output_size=total)
    at += torch.arange(total, device=tokens.device)
    return tokens[at].long() & 0xFFFF  # back from int16


def cut(lengths: Tensor, room: Tensor) -> Tensor:
    """Return the lengths (R, S) of pieces of which each row may have `room` (R,) in all.

    >>> cut(torch.tensor([[3, 1, 4]]), torch.tensor([5])).tolist()
    [[3, 1, 1]]
    """
    before = lengths.cumsum(1) - lengths
    return torch.minimum(lengths, (room[:, None] - before).clamp(min=0))


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Texts as token ids laid end to end, without what an encoder puts around each.

    >>> rows = TokenRows.of([[5, 6, 7], [8]], head=(101,), tail=102)
    >>> ids, lengths = rows.packed(torch.tensor([1, 0]), longest=4)
    >>> ids.tolist(), lengths.tolist()
    ([101, 8, 102, 101, 5, 6, 102], [3, 4])
    """

    ids: Tensor
    """(N,) the tokens of all rows, then what stands before each ([CLS], a prompt) and after."""
    starts: Tensor
    """(R + 1,) where each row begins, and the end of the last."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], head: tuple[int, ...], tail: int) -> "TokenRows":
        """Lay rows end to end."""
        flat = np.concatenate([np.asarray(row, dtype=np.uint16) for row in rows])
        return cls.flat(flat, np.array([len(row) for row in rows]), head, tail)

    @classmethod
    def flat(
        cls, ids: NDArray[np.uint16], lengths: NDArray[np.int64], head: tuple[int, ...], tail: int
    ) -> "TokenRows":
        """Take rows that already lie end to end."""
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        around = np.array([*head, tail], dtype=np.uint16)
        return cls(as_tensor(ids, around), torch.from_numpy(starts))

    def to(self, device: str) -> "TokenRows":
        """Move the tokens to a device, where batches are then made."""
        return TokenRows(self.ids.to(device), self.starts.to(device))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self, rows: Tensor, longest: int) -> Tensor:
        """Return how many tokens each of these rows has in a batch."""
        return self._pieces(rows, longest)[1].sum(1)

    def packed(self, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return these rows end to end, ids (N,) and lengths (B,); long ones lose their end."""
        starts, lengths = self._pieces(rows, longest)
        return laid_out(self.ids, starts, lengths), lengths.sum(1)

    def _pieces(self, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return where head, text and tail of each row begin, and their lengths (B, 3)."""
        end, last = self.starts[-1], len(self.ids) - 1
        first, own = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        starts = torch.stack([end.expand_as(first), first, torch.full_like(first, last)], 1)
        whole = torch.stack([(last - end).expand_as(first), own], 1)
        kept = cut(whole, torch.full_like(first, longest - 1))
        return starts, torch.cat([kept, torch.ones_like(first)[:, None]], 1)
