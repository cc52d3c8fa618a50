"""Training losses of rerankers, given their targets.

Every loss is a sum over questions, so that a batch may be split into parts; whoever adds up the
parts divides by the number of questions. Steps without a target do not count.

    choice_loss           IndepPR with the first step alone, JPR with all (paper, 3.2)
    pointwise_loss        yes or no for each candidate, as Nogueira et al. (2020)
    answer_loss           the answers still to be found, by candidate and position
    distillation          a teacher's distribution over the candidates of the first step
    answer_distillation   and over the positions of answers
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.models.candidates import EncodedBatch
from jpr.models.heads import segment_logsumexp
from jpr.models.joint import JointModel
from jpr.models.t5 import Memory
from jpr.train.batch import AnswerSpans

NORMALIZATIONS = ("sum", "mean", "any")
_NEVER = -1e4
"""A log-probability for the impossible whose gradient is still a number."""


def choice_loss(log_probs: Tensor, targets: Tensor, normalize: str) -> Tensor:
    """Return the loss of log P (Q, T, C) against targets (Q, T, C), summed over questions.

    The loss of a step is −Σ log P(o) over its targets as printed (`sum`), the same divided by their
    number (`mean`), or −log Σ P(o), satisfied by any of them (`any`).
    """
    some = targets.any(dim=-1)
    chosen, target = log_probs[some], targets[some]  # (S, C): other steps cannot spoil gradients
    if normalize == "any":
        return -chosen.masked_fill(~target, -torch.inf).logsumexp(dim=-1).sum()
    loss = -chosen.masked_fill(~target, 0.0).sum(dim=-1)
    return (loss / target.sum(dim=-1) if normalize == "mean" else loss).sum()


def pointwise_loss(logits: Tensor, targets: Tensor, present: Tensor) -> Tensor:
    """Return the binary cross-entropy, mean over a question's candidates (Q, C), summed."""
    loss = F.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="none")
    return (loss.masked_fill(~present, 0.0).sum(dim=1) / present.sum(dim=1)).sum()


def distillation(log_probs: Tensor, teacher: Tensor, present: Tensor) -> Tensor:
    """Return KL(teacher ‖ student) of a teacher's scores and log P (Q, C), summed."""
    theirs = teacher.float().masked_fill(~present, -torch.inf).log_softmax(dim=-1)
    divergence = theirs.exp() * (theirs - log_probs)
    return divergence.masked_fill(~present, 0.0).sum()


def answer_distillation(ours: Tensor, theirs: Tensor, weights: Tensor) -> Tensor:
    """Return KL(teacher ‖ student) of log P of answers' first and last tokens (N, 2), summed.

    Each token has the weight (N,) that the teacher gives its candidate.
    """
    of_text = theirs > -torch.inf
    theirs, ours = (part.masked_fill(~of_text, 0.0) for part in (theirs, ours))
    return (weights[:, None] * theirs.exp() * (theirs - ours)).sum()


@dataclass(frozen=True, slots=True)
class AnswerLikelihoods:
    """P(a | c) of G answers, each of one question, in the candidates that contain them."""

    question: Tensor
    """(G,)"""
    answer: Tensor
    """(S,) one of the G, …"""
    place: Tensor
    """(S,) … in this candidate of its question …"""
    log_prob: Tensor
    """(S,) … with log P(a | c)."""


def answer_likelihoods(encoded: EncodedBatch, spans: AnswerSpans) -> AnswerLikelihoods:
    """Add up, for each candidate and answer, the likelihood of all its spans."""
    assert encoded.answers is not None  # the model has an answer head
    counts = torch.tensor(encoded.counts, device=spans.answers.device)
    question = torch.repeat_interleave(counts, output_size=sum(encoded.counts))[spans.candidates]
    names, answer = torch.unique(question << 16 | spans.answers, return_inverse=True)
    both, which = torch.unique(spans.candidates * len(names) + answer, return_inverse=True)
    begins, ends = encoded.answers.unbind(1)
    log_prob = segment_logsumexp(begins[spans.first] + ends[spans.last], which, len(both))
    candidate, answer = both // len(names), both % len(names)
    place = candidate - (counts.cumsum(0) - counts)[names[answer] >> 16]
    return AnswerLikelihoods(names >> 16, answer, place, log_prob)


def answer_loss(log_probs: Tensor, prefixes: Tensor, known: AnswerLikelihoods) -> Tensor:
    """Return −log P(a | prefix) over the answers that prefixes lack, summed over questions.

    P(a | prefix) = Σ_c P(c | prefix) · P(a | c), given log P (Q, T + 1, C) after the beginnings of
    prefixes (Q, T), whose passages are -1 after their end, where steps do not count. It is the mean
    over a question's answers, summed over its steps as the loss of passages is.
    """
    answers, steps = len(known.question), log_probs.shape[1]
    holds = torch.zeros(answers, log_probs.shape[2] + 1, dtype=torch.bool, device=prefixes.device)
    holds[known.answer, known.place] = True
    holds[:, -1] = True  # for no passage: nothing is left to find after the end of a prefix
    chosen = holds.gather(1, prefixes[known.question] % holds.shape[1])  # (G, T)
    found = F.pad(chosen.cumsum(1) > 0, (1, 0))
    candidate = log_probs[known.question[known.answer], :, known.place]  # (S, T + 1)
    possible = candidate > -torch.inf
    mass = candidate.masked_fill(~possible, 0.0) + known.log_prob[:, None]
    by_step = [
        segment_logsumexp(mass[:, t].masked_fill(~possible[:, t], _NEVER), known.answer, answers)
        for t in range(steps)
    ]
    loss = -torch.stack(by_step, 1).masked_fill(found, 0.0).sum(1)  # (G,)
    count = torch.zeros(len(log_probs), device=loss.device).index_add(
        0, known.question, torch.ones_like(loss)
    )
    return (loss / count[known.question]).sum()


def first_logits(model: JointModel, encoded: EncodedBatch) -> Tensor:
    """Return the logits of the first step (Q, C)."""
    start = model.head.start_input().to(encoded.marked.dtype).expand(len(encoded.counts), 1, -1)
    hidden = model.decoder(start, Memory(encoded.memory, encoded.memory_lengths))
    return model.head.logits(hidden, model.head.keys(encoded), encoded.prior)[:, 0]
