"""What rerankers are trained to make small, given what they should have chosen.

Every loss is a sum over questions, so that a batch may be cut into parts: the one who adds up the
parts divides by the number of questions. Steps without a target do not count.

    choice_loss      IndepPR with the first step alone, JPR with all (paper, 3.2)
    pointwise_loss   each candidate by itself, yes or no, as Nogueira et al. (2020) do
    yes_no_loss      the same where a T5 says one of two words
    distillation     the distribution of a teacher over the candidates of the first step
    span_loss        where in a candidate its answer stands, for the attention of answer vectors
    pair_loss        which candidates hold the same answer, for pairs of answer vectors
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.models.joint import Encoded, JointModel
from jpr.models.pairs import log_sums
from jpr.models.t5 import Memory

NORMALISATIONS = ("sum", "each", "any")


def choice_loss(log_probs: Tensor, targets: Tensor, normalise: str) -> Tensor:
    """Return the loss of log P (Q, T, C) against targets (Q, T, C), summed over questions.

    The loss of a step is −Σ log P(o) over its targets as printed (`sum`), the same divided by their
    number (`each`), or −log Σ P(o), content with any of them (`any`).
    """
    some = targets.any(dim=-1)
    chosen, wanted = log_probs[some], targets[some]  # (S, C): no other step can spoil gradients
    if normalise == "any":
        return -chosen.masked_fill(~wanted, -torch.inf).logsumexp(dim=-1).sum()
    lost = -chosen.masked_fill(~wanted, 0.0).sum(dim=-1)
    return (lost / wanted.sum(dim=-1) if normalise == "each" else lost).sum()


def pointwise_loss(logits: Tensor, targets: Tensor, inside: Tensor) -> Tensor:
    """Return the mean loss of yes or no over a question's candidates (Q, C), summed over them."""
    lost = F.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="none")
    return (lost.masked_fill(~inside, 0.0).sum(dim=1) / inside.sum(dim=1)).sum()


def yes_no_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of a T5's logits for yes and no (R, 2) against who deserves a yes (R,)."""
    return F.cross_entropy(logits.float(), (~targets).long(), reduction="sum")


def distillation(log_probs: Tensor, teacher: Tensor, inside: Tensor) -> Tensor:
    """Return how far log P (Q, C) is from a teacher's scores (Q, C), KL summed over questions."""
    theirs = teacher.float().masked_fill(~inside, -torch.inf).log_softmax(dim=-1)
    apart = theirs.exp() * (theirs - log_probs)
    return apart.masked_fill(~inside, 0.0).sum()


def span_loss(
    attention: Tensor,
    answer_tokens: Tensor,
    candidate_of_token: Tensor,
    question_of_candidate: Tensor,
) -> Tensor:
    """Return −log of the share of attention on answer tokens, summed over questions.

    It is the mean over those candidates (R,) of a question that have any answer token; `attention`
    (N,) is the log of each token's share in its candidate.
    """
    rows = len(question_of_candidate)
    here = candidate_of_token[answer_tokens]
    share = log_sums(attention[answer_tokens], here, rows)
    some = torch.zeros_like(share).index_fill(0, here, 1.0)
    count = torch.zeros_like(share).index_add(0, question_of_candidate, some)
    lost = -share.masked_fill(some == 0, 0.0)
    return (lost / count.clamp(min=1)[question_of_candidate]).sum()


def pair_loss(pair_logits: Tensor, covers: Tensor) -> Tensor:
    """Return the loss of "they hold the same answer" (Q, C, C), summed over questions.

    `covers` (Q, C, B) are the answers of each candidate, as bits. Of a question count the pairs of
    answering candidates; those of one answer weigh half, and those of different ones.
    """
    answering = (covers != 0).any(dim=-1)
    same = (covers[:, :, None] & covers[:, None] != 0).any(dim=-1)
    apart = ~torch.eye(covers.shape[1], dtype=torch.bool, device=covers.device)
    asked = answering[:, :, None] & answering[:, None] & apart
    lost = F.binary_cross_entropy_with_logits(pair_logits, same.float(), reduction="none")
    return (_mean(lost, asked & same) + _mean(lost, asked & ~same)).sum() / 2


def _mean(values: Tensor, which: Tensor) -> Tensor:
    """Return the mean of some of each question's pairs (Q, C, C), 0 where there are none."""
    total = values.masked_fill(~which, 0.0).sum(dim=(1, 2))
    return total / which.sum(dim=(1, 2)).clamp(min=1)


def first_logits(model: JointModel, encoded: Encoded) -> Tensor:
    """Return what the first step's softmax is taken of (Q, C)."""
    start = model.head.first().to(encoded.marked.dtype).expand(len(encoded.counts), 1, -1)
    hidden = model.decoder(start, Memory(encoded.memory, encoded.memory_lengths))
    return model.head.logits(hidden, model.head.keys(encoded), encoded.prior)[:, 0]
