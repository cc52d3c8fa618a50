"""Evaluation of a joint model on a development pack, while it is trained: MRecall@k."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray

from jpr.decode.conditioning import COVERAGE, Conditioned, Observed
from jpr.decode.search import Limits, chosen_passages, decode_many
from jpr.evaluation.measures import mrecall
from jpr.models.candidates import PackedCandidates
from jpr.models.joint import JointModel
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import Vocabulary, find_evidence
from jpr.rerank.torch_scorer import TorchScorer
from jpr.train.batch import BatchBuilder
from jpr.train.distributed import autocast
from jpr.train.dynamic_oracle import Bits, Flags, Ints
from jpr.train.recipe import DevConfig
from jpr.train.sampler import CandidateBatch, Dataset
from jpr.types import Node

FIRST_STAGE, INDEPENDENT, JOINT = "first-stage", "independent", "joint"


class Chooser:
    """A model as it is evaluated: on a GPU a copy in 16 bits with CUDA graphs."""

    def __init__(self, model: JointModel, words: Vocabulary, ways: Mapping[str, Decoding]) -> None:
        """Take the weights as they are now, and the named ways to choose passages."""
        on_gpu = next(model.parameters()).is_cuda
        self._scorer = TorchScorer(deepcopy(model).bfloat16().eval() if on_gpu else model)
        self._words, self.ways = words, ways

    @torch.inference_mode()
    def __call__(self, candidates: PackedCandidates, k: int) -> dict[str, list[tuple[Node, ...]]]:
        """Return the choices for each question, by way."""
        opened, known = self._scorer.open_packed(candidates), None
        by_answers = any(way.is_conditioned for way in self.ways.values())
        if opened.passages is not None and by_answers:
            known = [Observed(find_evidence(one, self._words)) for one in opened.passages]
        found = {}
        for name, way in self.ways.items():
            searches = [way.search(n, Limits(k), self._scorer.ahead) for n in candidates.counts]
            ask = opened.ask
            if known is not None and way.is_conditioned:
                ask = Conditioned(ask, known, way.weights(COVERAGE))
            found[name] = decode_many(searches, ask)
        return found


def evaluate_pack(
    choose: Chooser, dataset: Dataset, builder: BatchBuilder, k: int, config: DevConfig
) -> dict[str, float]:
    """Return MRecall@k of the first-stage order and of every way to choose.

    The keys are `WAY all`, over all questions, and `WAY multi`, over those with several answers.
    """
    several: list[Flags] = []
    reached: dict[str, list[Flags]] = defaultdict(list)
    for batch in dataset.batches(np.arange(len(dataset.pack)), config.limit, config.batch):
        n_answers = dataset.pack.n_answers[batch.questions]
        several.append(n_answers > 1)
        for way, places in chosen_places(choose, builder, batch, k).items():
            count = answers_found(batch.covers, [chosen[:k] for chosen in places])
            reached[way].append(mrecall(count, n_answers, k))
    multi = np.concatenate(several)
    scores = {}
    for way, parts in reached.items():
        found = np.concatenate(parts)
        scores[f"{way} all"] = float(found.mean())
        scores[f"{way} multi"] = float(found[multi].mean()) if multi.any() else 0.0
    return scores


def chosen_places(
    choose: Chooser, builder: BatchBuilder, batch: CandidateBatch, k: int
) -> dict[str, list[Sequence[int]]]:
    """Return the places of the chosen candidates of each question, by way."""
    counts = batch.present.sum(axis=1)
    chosen: dict[str, list[Sequence[int]]] = {
        name: [range(min(k, n)) for n in counts.tolist()] for name in (FIRST_STAGE, *choose.ways)
    }
    some = np.flatnonzero(counts)
    if len(some):
        for name, decoded in choose(builder.build(batch.rows(some)), k).items():
            for row, one in zip(some.tolist(), decoded, strict=True):
                chosen[name][row] = chosen_passages(one)
    return chosen


def answers_found(covers: Bits, chosen: Sequence[Sequence[int]]) -> Ints:
    """Return how many answers of each question the chosen candidates contain."""
    covered = [
        np.bitwise_or.reduce(row[list(places)], axis=0)
        for row, places in zip(covers, chosen, strict=True)
    ]
    found: Ints = np.unpackbits(np.array(covered, dtype=np.uint8), axis=1).sum(axis=1)
    return found


@torch.inference_mode()
def score_pack(
    model: JointModel, dataset: Dataset, builder: BatchBuilder, size: int = 32
) -> NDArray[np.float16]:
    """Return log P of every candidate of a pack (E,) to be the first: IndepPR's s(p)."""
    scores = np.zeros(len(dataset.pack.candidates), dtype=np.float16)
    some = np.flatnonzero(np.diff(dataset.pack.candidate_starts))
    for batch in dataset.batches(some, 0, size):
        with autocast(builder.device):
            encoded = model.encode(builder.build(batch))
            none = torch.zeros(len(batch.questions), 0, dtype=torch.long, device=builder.device)
            log_probs = model.log_probs(encoded, none)[:, 0]
        scores[batch.edges[batch.present]] = log_probs[encoded.mask].float().cpu().numpy()
    return scores
