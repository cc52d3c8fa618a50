"""The loss of a joint model on what was drawn for a step: targets, prefixes, objective."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from jpr.models.joint import (
    EncodedBatch,
    IndexHead,
    JointModel,
    PackedCandidates,
    masked_log_softmax,
)
from jpr.train.batch import BatchBuilder, Spans
from jpr.train.development import answers_of, assembled
from jpr.train.distributed import World
from jpr.train.dynamic_oracle import (
    Flags,
    Whole,
    next_targets,
    oracle_targets,
    positives,
    ranked,
    shuffled,
    uncovered_targets,
    useful,
    with_negatives,
)
from jpr.train.loop import Part
from jpr.train.objectives import (
    answer_distillation,
    answer_loss,
    choice_loss,
    distillation,
    first_logits,
    pointwise_loss,
    told,
)
from jpr.train.recipe import JointTraining, ObjectiveConfig
from jpr.train.sampler import Dataset, Sample, Sampler


def steps_of(drawn: Sample, objective: ObjectiveConfig, k: int) -> tuple[Whole, Flags]:
    """Return what the model is taken to have chosen (Q, T) and the targets of all steps (Q, T, C).

    The last passage of a sequence is never seen: there is no step after it.
    """
    covers, inside = drawn.listed.covers, drawn.listed.inside
    if objective.kind != "joint":
        return np.full((len(covers), 1), -1), useful(covers)[:, None]
    chosen = positives(covers, k)
    scores = drawn.feed.prior_of(drawn.listed)
    if objective.prefix == "teacher-forcing":
        sequences = ranked(chosen, scores)[:, :k]
        return sequences, next_targets(sequences, covers.shape[1])
    if objective.prefix == "no-negatives":
        sequences = ranked(chosen, scores)[:, :k]
    else:
        gamma, noise = objective.gamma, drawn.noise[0]
        sequences = with_negatives(chosen, inside, scores, gamma, noise)[:, :k]
    sequences = shuffled(sequences, drawn.noise[1][:, : sequences.shape[1]])
    if objective.targets == "oracle":
        return sequences, oracle_targets(chosen, sequences)
    return sequences, uncovered_targets(covers, sequences)


class JointLoss:
    """The loss of a part of a step's batch."""

    def __init__(
        self,
        model: JointModel,
        draws: Sampler,
        assemblers: Mapping[Dataset, BatchBuilder],
        config: JointTraining,
        world: World,
        teacher: JointModel | None = None,
    ) -> None:
        """Bring together what the loss depends on."""
        world.check_batch(config.batch, config.loop.micros)
        self._model, self._draws, self._assemblers = model, draws, assemblers
        self._config, self._world, self._teacher = config, world, teacher
        head = model.head
        self._numbers = len(head.tokens) if isinstance(head, IndexHead) else 0

    def __call__(self, step: int, rank: int, micro: int) -> Part:
        """Return the loss of a part, over the number of questions in the whole batch."""
        parts = self._world.size * self._config.loop.micros
        part = micro * self._world.size + rank
        drawn = self._draws.part(step, part, parts, self._numbers)
        # Before the first look at the device, which waits until it has done the step before.
        made = [steps_of(one, self._config.objective, self._config.k) for one in drawn]
        several = [assembled(self._assemblers[one.feed], one.listed, one.numbers) for one in drawn]
        candidates = _end_to_end(several)
        encoded = self._model.encode(candidates)
        sequences = np.concatenate([sequence for sequence, _ in made])
        prefixes = torch.from_numpy(sequences[:, :-1]).to(encoded.mask.device)
        loss, log_probs = self._loss(encoded, prefixes, [wanted for _, wanted in made])
        weight = self._config.objective.answer_weight
        if encoded.answers is not None and weight:
            known = told(encoded, self._spans(drawn, several))
            loss = loss + weight * answer_loss(log_probs, prefixes, known)
        if self._teacher is not None:
            share = self._config.objective.teacher_weight
            apart = self._apart(self._teacher, candidates, encoded, log_probs[:, 0])
            loss = (1 - share) * loss + share * apart
        return Part(loss / self._config.batch, len(candidates.ids))

    def _loss(
        self, encoded: EncodedBatch, prefixes: Tensor, made: Sequence[Flags]
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of what is chosen, and log P (Q, steps, C)."""
        objective, device = self._config.objective, encoded.mask.device
        widest = max(encoded.counts)
        targets = np.concatenate([wanted[..., :widest] for wanted in made])
        wanted = torch.from_numpy(targets).to(device, non_blocking=True)
        if objective.kind == "pointwise":
            logits = first_logits(self._model, encoded)
            loss = pointwise_loss(logits, wanted[:, 0], encoded.mask)
            log_probs = masked_log_softmax(logits, ~encoded.mask)[:, None]
        else:
            # To say any number of those given is what the index head has to learn first: were the
            # others out of the question, nothing would teach it to look numbers up.
            log_probs = self._model.log_probs(encoded, prefixes.clamp(min=0), all_index_tokens=True)
            loss = choice_loss(log_probs, wanted, objective.normalise)
        return loss, log_probs

    def _apart(
        self,
        teacher: JointModel,
        candidates: PackedCandidates,
        encoded: EncodedBatch,
        log_probs: Tensor,
    ) -> Tensor:
        """Return how far the first step (Q, C), and where answers stand, is from a teacher's."""
        with torch.no_grad():
            theirs = teacher.encode(candidates)
            said = masked_log_softmax(first_logits(teacher, theirs), ~theirs.mask)
        apart = distillation(log_probs, said, encoded.mask)
        weight = self._config.objective.answer_weight
        if encoded.answers is None or theirs.answers is None or not weight:
            return apart
        shares = said.exp()[encoded.mask].repeat_interleave(candidates.lengths)
        return apart + weight * answer_distillation(encoded.answers, theirs.answers, shares)

    def _spans(self, drawn: Sequence[Sample], several: Sequence[PackedCandidates]) -> Spans:
        """Return where the answers of all candidates stand."""
        found = [answers_of(self._assemblers[one.feed], one.listed) for one in drawn]
        rows = np.cumsum([0, *(len(one.lengths) for one in several)]).tolist()
        tokens = np.cumsum([0, *(len(one.ids) for one in several)]).tolist()
        return Spans(
            torch.cat([one.candidates + row for one, row in zip(found, rows, strict=False)]),
            torch.cat([one.answers for one in found]),
            torch.cat([one.first + token for one, token in zip(found, tokens, strict=False)]),
            torch.cat([one.last + token for one, token in zip(found, tokens, strict=False)]),
        )


def _end_to_end(several: Sequence[PackedCandidates]) -> PackedCandidates:
    if len(several) == 1:
        return several[0]
    return PackedCandidates(
        torch.cat([one.ids for one in several]),
        torch.cat([one.lengths for one in several]),
        tuple(count for one in several for count in one.counts),
        torch.cat([one.marks for one in several]),
        torch.cat([one.texts for one in several]),
        torch.cat([one.numbers for one in several]),
        torch.cat([one.prior for one in several]),
    )
