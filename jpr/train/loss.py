"""The loss of a joint model on the samples of a step: targets, prefixes, objective."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from jpr.models.candidates import EncodedBatch, PackedCandidates
from jpr.models.heads import IndexHead
from jpr.models.joint import JointModel, masked_log_softmax
from jpr.train.batch import AnswerSpans, BatchBuilder
from jpr.train.distributed import World
from jpr.train.dynamic_oracle import (
    Flags,
    Ints,
    has_answer,
    next_targets,
    oracle_targets,
    positives,
    ranked,
    shuffled,
    uncovered_targets,
    with_negatives,
)
from jpr.train.loop import PartialLoss
from jpr.train.objectives import (
    answer_distillation,
    answer_likelihoods,
    answer_loss,
    choice_loss,
    distillation,
    first_logits,
    pointwise_loss,
)
from jpr.train.recipe import JointTraining, ObjectiveConfig
from jpr.train.sampler import Dataset, Sample, Sampler


def steps_of(sample: Sample, objective: ObjectiveConfig, k: int) -> tuple[Ints, Flags]:
    """Return the sequences that the model is assumed to have chosen (Q, T), and targets (Q, T, C).

    The last passage of a sequence is never seen: there is no step after it.
    """
    covers, present = sample.batch.covers, sample.batch.present
    if objective.kind != "joint":
        return np.full((len(covers), 1), -1), has_answer(covers)[:, None]
    chosen = positives(covers, k)
    scores = sample.dataset.prior_scores(sample.batch)
    if objective.prefix == "teacher-forcing":
        sequences = ranked(chosen, scores)[:, :k]
        return sequences, next_targets(sequences, covers.shape[1])
    if objective.prefix == "no-negatives":
        sequences = ranked(chosen, scores)[:, :k]
    else:
        noise = sample.noise[0]
        sequences = with_negatives(chosen, present, scores, objective.gamma, noise)[:, :k]
    sequences = shuffled(sequences, sample.noise[1][:, : sequences.shape[1]])
    if objective.targets == "oracle":
        return sequences, oracle_targets(chosen, sequences)
    return sequences, uncovered_targets(covers, sequences)


class JointLoss:
    """The loss of a part of a step's batch."""

    def __init__(
        self,
        model: JointModel,
        sampler: Sampler,
        builders: Mapping[Dataset, BatchBuilder],
        config: JointTraining,
        world: World,
        teacher: JointModel | None = None,
    ) -> None:
        """Check that the batch can be split among processes and micro-batches."""
        world.check_batch(config.batch, config.loop.micro_batches)
        self._model, self._sampler, self._builders = model, sampler, builders
        self._config, self._world, self._teacher = config, world, teacher
        self._index_tokens = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0

    def __call__(self, step: int, rank: int, micro: int) -> PartialLoss:
        """Return the loss of a part, divided by the number of questions in the whole batch."""
        objective = self._config.objective
        parts = self._world.size * self._config.loop.micro_batches
        part = micro * self._world.size + rank
        samples = self._sampler.part(step, part, parts, self._index_tokens)
        # Before the first use of the device, which waits until it has finished the step before.
        steps = [steps_of(one, objective, self._config.k) for one in samples]
        built = [self._builders[one.dataset].build(one.batch, one.numbers) for one in samples]
        candidates = _concatenated(built)
        encoded = self._model.encode(candidates)
        sequences = np.concatenate([sequence for sequence, _ in steps])
        prefixes = torch.from_numpy(sequences[:, :-1]).to(encoded.mask.device)
        loss, log_probs = self._choice_loss(encoded, prefixes, [targets for _, targets in steps])
        weight = objective.answer_weight
        if encoded.answers is not None and weight:
            known = answer_likelihoods(encoded, self._answer_spans(samples, built))
            loss = loss + weight * answer_loss(log_probs, prefixes, known)
        if self._teacher is not None:
            taught = self._distillation(self._teacher, candidates, encoded, log_probs[:, 0])
            loss = (1 - objective.teacher_weight) * loss + objective.teacher_weight * taught
        return PartialLoss(loss / self._config.batch, len(candidates.ids))

    def _choice_loss(
        self, encoded: EncodedBatch, prefixes: Tensor, targets_of: Sequence[Flags]
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of the choices, and log P (Q, steps, C)."""
        objective, width = self._config.objective, max(encoded.counts)
        whole = np.concatenate([targets[..., :width] for targets in targets_of])
        targets = torch.from_numpy(whole).to(encoded.mask.device, non_blocking=True)
        if objective.kind == "pointwise":
            logits = first_logits(self._model, encoded)
            loss = pointwise_loss(logits, targets[:, 0], encoded.mask)
            return loss, masked_log_softmax(logits, ~encoded.mask)[:, None]
        # Over all index tokens: an index head first has to learn to choose a token that was given,
        # and would not if the others were masked.
        log_probs = self._model.log_probs(encoded, prefixes.clamp(min=0), all_index_tokens=True)
        return choice_loss(log_probs, targets, objective.normalize), log_probs

    def _distillation(
        self,
        teacher: JointModel,
        candidates: PackedCandidates,
        encoded: EncodedBatch,
        log_probs: Tensor,
    ) -> Tensor:
        """Return the divergence from a teacher: of the first step, and of answer positions."""
        with torch.no_grad():
            theirs = teacher.encode(candidates)
            chosen = masked_log_softmax(first_logits(teacher, theirs), ~theirs.mask)
        loss = distillation(log_probs, chosen, encoded.mask)
        weight = self._config.objective.answer_weight
        if encoded.answers is None or theirs.answers is None or not weight:
            return loss
        shares = chosen.exp()[encoded.mask].repeat_interleave(candidates.lengths)
        return loss + weight * answer_distillation(encoded.answers, theirs.answers, shares)

    def _answer_spans(
        self, samples: Sequence[Sample], built: Sequence[PackedCandidates]
    ) -> AnswerSpans:
        """Return where the answers of all candidates are."""
        found = [self._builders[one.dataset].answer_spans(one.batch) for one in samples]
        rows = np.cumsum([0, *(len(one.lengths) for one in built)]).tolist()
        tokens = np.cumsum([0, *(len(one.ids) for one in built)]).tolist()
        return AnswerSpans(
            torch.cat([one.candidates + row for one, row in zip(found, rows, strict=False)]),
            torch.cat([one.answers for one in found]),
            torch.cat([one.first + token for one, token in zip(found, tokens, strict=False)]),
            torch.cat([one.last + token for one, token in zip(found, tokens, strict=False)]),
        )


def _concatenated(several: Sequence[PackedCandidates]) -> PackedCandidates:
    if len(several) == 1:
        return several[0]
    return PackedCandidates(
        torch.cat([one.ids for one in several]),
        torch.cat([one.lengths for one in several]),
        tuple(count for one in several for count in one.counts),
        torch.cat([one.marks for one in several]),
        torch.cat([one.passage_starts for one in several]),
        torch.cat([one.index_ids for one in several]),
        torch.cat([one.prior for one in several]),
    )
