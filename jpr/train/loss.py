"""The losses of a joint model: of given targets, and of the samples of a training step.

Every loss is a sum over questions, so that a batch may be split into parts; whoever adds up the
parts divides by the number of questions. Steps without a target do not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.models.candidates import EncodedBatch, PackedCandidates
from jpr.models.heads import IndexHead
from jpr.models.joint import JointModel, masked_log_softmax
from jpr.models.t5 import Memory
from jpr.train import dynamic_oracle as oracle
from jpr.train.batch import AnswerSpans, BatchBuilder
from jpr.train.dynamic_oracle import Flags, Ints
from jpr.train.loop import PartialLoss
from jpr.train.recipe import JointTraining, ObjectiveConfig
from jpr.train.sampler import Dataset, Sample, Sampler


def choice_loss(log_probs: Tensor, targets: Tensor, normalize: str) -> Tensor:
    """Return the loss of log P (Q, T, C) against targets (Q, T, C), summed over questions.

    It is IndepPR's with the first step alone, JPR's with all (paper, 3.2).
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


def span_loss(logits: Tensor, spans: AnswerSpans, candidates: Tensor) -> Tensor:
    """Return the binary cross-entropy of spans (N, longest): summed over those of a candidate.

    It is the mean over a question's candidates, whose number each token has (N,), and summed over
    questions. Occurrences of answers are positives. Spans that overlap an occurrence longer than
    the longest span are neither.
    """
    count, longest = logits.shape
    size = spans.last - spans.first + 1
    short = size <= longest
    long = np.zeros(count + longest, dtype=np.bool_)
    for first, last in zip(spans.first[~short], spans.last[~short], strict=True):
        long[first : last + 1] = True
    is_answer = torch.zeros_like(logits, dtype=torch.bool)
    is_answer[spans.first[short], size[short] - 1] = True
    overlaps = torch.from_numpy(long).to(logits.device).unfold(0, longest, 1)[:count].cumsum(1) > 0
    counted = (logits > -torch.inf) & (is_answer | ~overlaps)
    loss = F.binary_cross_entropy_with_logits(
        logits.masked_fill(~counted, 0.0), is_answer.to(logits), reduction="none"
    )
    return (loss.masked_fill(~counted, 0.0).sum(1) / candidates).sum()


def answer_distillation(ours: Tensor, theirs: Tensor, weights: Tensor) -> Tensor:
    """Return Σ KL(teacher ‖ student) of whether each span is an answer, given logits (N, longest).

    Each token has the weight (N,) that the teacher gives its candidate.
    """
    outside = theirs == -torch.inf
    theirs, ours = (part.masked_fill(outside, 0.0) for part in (theirs, ours))
    yes, no = (F.logsigmoid(s * theirs) - F.logsigmoid(s * ours) for s in (1, -1))
    divergence = theirs.sigmoid() * yes + (-theirs).sigmoid() * no
    return (divergence.masked_fill(outside, 0.0).sum(1) * weights).sum()


def first_logits(model: JointModel, encoded: EncodedBatch) -> Tensor:
    """Return the logits of the first step (Q, C)."""
    start = model.head.start.to(encoded.marked.dtype).expand(len(encoded.counts), 1, -1)
    hidden = model.decoder(start, Memory(encoded.memory, encoded.memory_lengths))
    return model.head.logits(hidden, model.head.keys(encoded), encoded.prior)[:, 0]


def steps_of(sample: Sample, objective: ObjectiveConfig, k: int) -> tuple[Ints, Flags]:
    """Return the sequences that the model is assumed to have chosen (Q, T), and targets (Q, T, C).

    The last passage of a sequence is never seen: there is no step after it.
    """
    covers, present = sample.batch.covers, sample.batch.present
    if objective.kind != "joint":
        return np.full((len(covers), 1), -1), oracle.has_answer(covers)[:, None]
    chosen = oracle.positives(covers, k)
    scores = sample.dataset.prior_scores(sample.batch)
    if objective.prefix == "dynamic":
        noise = sample.noise[0]
        sequences = oracle.with_negatives(chosen, present, scores, objective.gamma, noise)[:, :k]
    else:
        sequences = oracle.ranked(chosen, scores)[:, :k]
    if objective.prefix == "teacher-forcing":
        return sequences, oracle.next_targets(sequences, covers.shape[1])
    sequences = oracle.shuffled(sequences, sample.noise[1][:, : sequences.shape[1]])
    if objective.targets == "oracle":
        return sequences, oracle.oracle_targets(chosen, sequences)
    return sequences, oracle.uncovered_targets(covers, sequences)


@dataclass(frozen=True, eq=False)
class JointLoss:
    """The loss of a part of a step's batch, whose samples their data sets' builders build."""

    model: JointModel
    sampler: Sampler
    builders: Mapping[Dataset, BatchBuilder]
    config: JointTraining
    teacher: JointModel | None = None

    def __call__(self, step: int, part: int, parts: int) -> PartialLoss:
        """Return the loss of a part, divided by the number of questions in the whole batch."""
        model, objective = self.model, self.config.objective
        index_tokens = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0
        samples = self.sampler.part(step, part, parts, index_tokens)
        steps = [steps_of(one, objective, self.config.k) for one in samples]
        built = [self.builders[one.dataset].build(one.batch, one.numbers) for one in samples]
        candidates = _concatenated(built)
        encoded = model.encode(candidates)
        sequences = np.concatenate([sequence for sequence, _ in steps])
        prefixes = torch.from_numpy(sequences[:, :-1]).to(encoded.mask.device)
        whole = np.concatenate([targets[..., : max(encoded.counts)] for _, targets in steps])
        targets = torch.from_numpy(whole).to(encoded.mask.device, non_blocking=True)
        log_probs, loss = self._choice(encoded, prefixes, targets)
        if encoded.answers is not None and objective.answer_weight:
            counts = torch.tensor([n for n in encoded.counts for _ in range(n)])
            each = torch.repeat_interleave(
                counts.to(log_probs.device), candidates.lengths, output_size=len(candidates.ids)
            )
            of_spans = span_loss(encoded.answers, self._answer_spans(samples, built), each)
            loss = loss + objective.answer_weight * of_spans
        if self.teacher is not None:
            taught = self._distillation(self.teacher, candidates, encoded, log_probs[:, 0])
            loss = (1 - objective.teacher_weight) * loss + objective.teacher_weight * taught
        return PartialLoss(loss / self.config.batch, len(candidates.ids))

    def _choice(
        self, encoded: EncodedBatch, prefixes: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return log P of all candidates after each prefix, and the loss of choosing them."""
        if self.config.objective.kind == "pointwise":
            logits = first_logits(self.model, encoded)
            loss = pointwise_loss(logits, targets[:, 0], encoded.mask)
            return masked_log_softmax(logits, ~encoded.mask)[:, None], loss
        # Over all index tokens: an index head first has to learn to choose a token that was given,
        # and would not if the others were masked.
        log_probs = self.model.log_probs(encoded, prefixes.clamp(min=0), all_index_tokens=True)
        return log_probs, choice_loss(log_probs, targets, self.config.objective.normalize)

    def _distillation(
        self, teacher: JointModel, candidates: PackedCandidates, ours: EncodedBatch, first: Tensor
    ) -> Tensor:
        """Return the loss against a teacher, given our log P of the first step (Q, C)."""
        with torch.no_grad():
            theirs = teacher.encode(candidates)
            chosen = masked_log_softmax(first_logits(teacher, theirs), ~theirs.mask)
        loss, weight = distillation(first, chosen, ours.mask), self.config.objective.answer_weight
        if ours.answers is not None and theirs.answers is not None and weight:
            shares = chosen.exp()[ours.mask].repeat_interleave(candidates.lengths)
            loss = loss + weight * answer_distillation(ours.answers, theirs.answers, shares)
        return loss

    def _answer_spans(
        self, samples: Sequence[Sample], built: Sequence[PackedCandidates]
    ) -> AnswerSpans:
        """Return the spans of all samples, counted through the candidates of all."""
        found, row, token = [], 0, 0
        for one, candidates in zip(samples, built, strict=True):
            own = self.builders[one.dataset].answer_spans(one.batch)
            counted = own.candidates + row, own.answers, own.positions
            found.append((*counted, own.first + token, own.last + token))
            row, token = row + len(candidates.lengths), token + len(candidates.ids)
        return AnswerSpans(*map(np.concatenate, zip(*found, strict=True)))


def _concatenated(several: Sequence[PackedCandidates]) -> PackedCandidates:
    if len(several) == 1:
        return several[0]
    counts = tuple(chain.from_iterable(one.counts for one in several))
    names = [one.name for one in fields(PackedCandidates) if one.name != "counts"]
    tensors = {name: torch.cat([getattr(one, name) for one in several]) for name in names}
    return PackedCandidates(counts=counts, **tensors)
