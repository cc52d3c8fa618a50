"""What rerankers are trained to make small, given what they should have chosen.

Every loss is a sum over questions, so that a batch may be cut into parts: the one who adds up the
parts divides by the number of questions. Steps without a target do not count.

    choice_loss      IndepPR with the first step alone, JPR with all (paper, 3.2)
    pointwise_loss   each candidate by itself, yes or no, as Nogueira et al. (2020) do
    yes_no_loss      the same where a T5 says one of two words
    answer_loss      the answers that are still to be found, by candidates and by where they stand
    distillation     the distribution of a teacher over the candidates of the first step
    answer_distillation   and over where answers stand in them
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.models.heads import segment_logsumexp
from jpr.models.joint import EncodedBatch, JointModel
from jpr.models.t5 import Memory
from jpr.train.batch import Spans

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


def answer_distillation(ours: Tensor, theirs: Tensor, shares: Tensor) -> Tensor:
    """Return how far log P of answers' first and last tokens (N, 2) is from a teacher's, KL summed.

    Each token counts by the share (N,) that the teacher gives its candidate.
    """
    of_text = theirs > -torch.inf
    theirs, ours = (part.masked_fill(~of_text, 0.0) for part in (theirs, ours))
    return (shares[:, None] * theirs.exp() * (theirs - ours)).sum()


@dataclass(frozen=True, slots=True)
class Told:
    """Which candidates tell which answers, G in all, each of one question."""

    question: Tensor
    """(G,)"""
    answer: Tensor
    """(S,) one of the G, …"""
    place: Tensor
    """(S,) … told by this candidate of its question …"""
    log_prob: Tensor
    """(S,) … with log P(a | c)."""


def told(encoded: EncodedBatch, spans: Spans) -> Told:
    """Add up, for each candidate and answer, the likelihood of all its spans."""
    assert encoded.answers is not None  # the model reads answers
    counts = torch.tensor(encoded.counts, device=spans.answers.device)
    question = torch.repeat_interleave(counts, output_size=sum(encoded.counts))[spans.candidates]
    names, answer = torch.unique(question << 16 | spans.answers, return_inverse=True)
    both, which = torch.unique(spans.candidates * len(names) + answer, return_inverse=True)
    begins, ends = encoded.answers.unbind(1)
    log_prob = segment_logsumexp(begins[spans.first] + ends[spans.last], which, len(both))
    candidate, answer = both // len(names), both % len(names)
    place = candidate - (counts.cumsum(0) - counts)[names[answer] >> 16]
    return Told(names >> 16, answer, place, log_prob)


def answer_loss(log_probs: Tensor, prefixes: Tensor, known: Told) -> Tensor:
    """Return −log P(a | prefix), over the answers that prefixes lack, summed over questions.

    P(a | prefix) = Σ_c P(c | prefix) · P(a | c), given log P (Q, T + 1, C) after the beginnings of
    prefixes (Q, T), whose passages are -1 after their end, where steps do not count. It is the mean
    over a question's answers, summed over its steps as the loss of passages is.
    """
    answers, steps = len(known.question), log_probs.shape[1]
    tells = torch.zeros(answers, log_probs.shape[2] + 1, dtype=torch.bool, device=prefixes.device)
    tells[known.answer, known.place] = True
    tells[:, -1] = True  # for no passage: after a prefix's end nothing is to be found
    chosen = tells.gather(1, prefixes[known.question] % tells.shape[1])  # (G, T)
    found = F.pad(chosen.cumsum(1) > 0, (1, 0))
    shares = log_probs[known.question[known.answer], :, known.place]  # (S, T + 1)
    open_ = shares > -torch.inf
    mass = shares.masked_fill(~open_, 0.0) + known.log_prob[:, None]
    lost = [
        segment_logsumexp(mass[:, t].masked_fill(~open_[:, t], _NEVER), known.answer, answers)
        for t in range(steps)
    ]
    each = -torch.stack(lost, 1).masked_fill(found, 0.0).sum(1)  # (G,)
    count = torch.zeros(len(log_probs), device=each.device).index_add(
        0, known.question, torch.ones_like(each)
    )
    return (each / count[known.question]).sum()


_NEVER = -1e4


def first_logits(model: JointModel, encoded: EncodedBatch) -> Tensor:
    """Return what the first step's softmax is taken of (Q, C)."""
    start = model.head.start_input().to(encoded.marked.dtype).expand(len(encoded.counts), 1, -1)
    hidden = model.decoder(start, Memory(encoded.memory, encoded.memory_lengths))
    return model.head.logits(hidden, model.head.keys(encoded), encoded.prior)[:, 0]
