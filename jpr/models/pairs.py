"""Which candidates hold the same answer, and how little a second one of them adds.

A candidate's *answer vector* is a mixture of its tokens' vectors, by an attention that is taught
where the answer stands. Two answer vectors have a logit, that both hold the same answer, from which
follows the *redundancy* of one candidate once the other was chosen. All of it is in 32 bits: it is
small beside the encoder, and redundancies add up.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_GAIN = 10.0
_FIRST = -0.3


class Pairs(nn.Module):
    """The weights that answer vectors and their pairs need."""

    def __init__(self, d: int, width: int) -> None:
        """Compare answer vectors of size d by `width` numbers of each."""
        super().__init__()
        self.score = nn.Linear(d, 1, bias=False)
        self.left, self.right = (nn.Linear(d, width, bias=False) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(()))
        self.raw_strength = nn.Parameter(torch.tensor(_FIRST))
        self.width, self.scale = width, width**-0.5

    def pooled(self, hidden: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log of each token's share (N,) in its row's attention, and mixtures (R, d).

        Rows of `lengths` (R,) tokens lie end to end in `hidden` (N, d).
        """
        with _in_32_bits(hidden):
            x = hidden.float()
            row = torch.repeat_interleave(lengths, output_size=len(x))  # (N,) whose token it is
            scores = x @ self.score.weight[0].float()
            shares = scores - log_sums(scores, row, len(lengths))[row]
            empty = x.new_zeros(len(lengths), x.shape[1])
            return shares, empty.index_add(0, row, shares.exp()[:, None] * x)

    def logits(self, answers: Tensor) -> Tensor:
        """Return logits of "they hold the same answer" (…, C, C) for answer vectors (…, C, d)."""
        with _in_32_bits(answers):
            left, right = (
                F.linear(answers.float(), w.weight.float()) for w in (self.left, self.right)
            )
            found: Tensor = left @ right.transpose(-1, -2) * self.scale + self.bias.float()
            return found

    def redundancy(self, answers: Tensor) -> Tensor:
        """Return what each candidate loses once another was chosen (…, C, C), by that one last."""
        return self.strength() * F.softplus(self.logits(answers))

    def strength(self) -> Tensor:
        """Return how much pairs count: hardly, in the beginning.

        The weight counts tenfold, since an optimizer that goes by small steps would not come far.
        """
        return F.softplus(_GAIN * self.raw_strength.float())


def lowered(logits: Tensor, taken: Tensor, redundancy: Tensor) -> Tensor:
    """Lower candidates' numbers (Q, T, C) by their redundancy (Q, C, C) with those taken."""
    with _in_32_bits(logits):
        return logits - taken.float() @ redundancy.transpose(1, 2)


def log_sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return log Σ exp of the values (N,) of each row (R,); −∞ for a row without any."""
    least = values.new_full((rows,), -torch.inf)
    most = least.scatter_reduce(0, row, values.detach(), "amax")
    sums = values.new_zeros(rows).index_add(0, row, (values - most[row]).exp())
    return sums.log() + most


def _in_32_bits(like: Tensor) -> torch.autocast:
    return torch.autocast(like.device.type, enabled=False)
