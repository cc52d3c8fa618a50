"""Where in a candidate an answer may stand.

Of every token of a passage, how likely an answer begins there and how likely it ends there, given
that the candidate has one. The best spans are read off by `jpr.rerank.evidence`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpanHead(nn.Module):
    """The weights by which tokens are told that begin or end an answer."""

    def __init__(self, d: int) -> None:
        """Judge vectors of size d."""
        super().__init__()
        self.ends = nn.Linear(d, 2, bias=False)

    def forward(self, hidden: Tensor, lengths: Tensor, texts: Tensor) -> Tensor:
        """Return log P (N, 2) of each token to begin and to end the answer of its row.

        Rows of `lengths` (R,) tokens lie end to end in `hidden` (N, d). In each the passage begins
        at `texts` (R,) and ends before the last token; other tokens have no part in it.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            scores = F.linear(hidden.float(), self.ends.weight.float())
        row = torch.repeat_interleave(lengths, output_size=len(hidden))  # (N,) whose token it is
        of_text = torch.nonzero(in_passages(row, lengths, texts))[:, 0]
        scores, row = scores[of_text], row[of_text]
        sums = torch.stack(
            [segment_logsumexp(part, row, len(lengths)) for part in scores.unbind(1)], 1
        )
        none = scores.new_full((len(hidden), 2), -torch.inf)
        return none.index_copy(0, of_text, scores - sums[row])


def in_passages(row: Tensor, lengths: Tensor, texts: Tensor) -> Tensor:
    """Tell which tokens (N,), of these rows each, are of passages and not of what is around."""
    place = torch.arange(len(row), device=row.device) - (lengths.cumsum(0) - lengths)[row]
    return (place >= texts[row]) & (place < lengths[row] - 1)


def segment_logsumexp(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return log Σ exp of the values (N,) of each row (R,); −∞ for a row without any."""
    least = values.new_full((rows,), -torch.inf)
    most = least.scatter_reduce(0, row, values.detach(), "amax")
    sums = values.new_zeros(rows).index_add(0, row, (values - most[row]).exp())
    return sums.log() + most
