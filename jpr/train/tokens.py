"""Many tokenised texts in one flat array, put together into batches on the device itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Texts as token ids laid end to end, without what an encoder puts around each.

    >>> rows = TokenRows.of([[5, 6, 7], [8]], head=(101,), tail=102)
    >>> ids, lengths = rows.packed(torch.tensor([1, 0]), longest=4)
    >>> ids.tolist(), lengths.tolist()
    ([101, 8, 102, 101, 5, 6, 102], [3, 4])
    """

    ids: Tensor
    """(N + 1,) the tokens of all rows, and one that belongs to none."""
    starts: Tensor
    """(R + 1,) where each row begins, and the end of the last."""
    head: tuple[int, ...]
    """What stands before each row: [CLS], a prompt."""
    tail: int
    """What stands after each row: [SEP]."""

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
        padded = np.append(ids.astype(np.int32), 0)  # so that there is a token to point at
        return cls(torch.from_numpy(padded), torch.from_numpy(starts), head, tail)

    def to(self, device: str) -> "TokenRows":
        """Move the tokens to a device, where batches are then made."""
        return TokenRows(self.ids.to(device), self.starts.to(device), self.head, self.tail)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self, rows: Tensor, longest: int) -> Tensor:
        """Return how many tokens each of these rows has in a batch."""
        around = len(self.head) + 1
        return (self.starts[rows + 1] - self.starts[rows] + around).clamp(max=longest)

    def packed(self, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return these rows end to end, ids (N,) and lengths (B,); long ones lose their end."""
        lengths = self.lengths(rows, longest)
        total = int(lengths.sum())
        first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths, output_size=total)
        start = torch.repeat_interleave(self.starts[rows], lengths, output_size=total)
        last = torch.repeat_interleave(lengths - 1, lengths, output_size=total)
        place = torch.arange(total, device=self.ids.device) - first
        inner = (start + place - len(self.head)).clamp(0, len(self.ids) - 1)
        ids = self.ids[inner].long()
        for at, token in enumerate(self.head):
            ids[place == at] = token
        ids[place == last] = self.tail
        return ids, lengths
