"""How good a joint model is on a development pack, while it is trained: MRecall@k.

Same definition as `evaluation.measures.MRecall`, from the pack's arrays; a test ties them together.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.decode import Ask, Covering, Decoded, Limits, decode_many
from jpr.errors import DataError
from jpr.models.decoder_cache import CachePool
from jpr.models.joint import JointModel, PackedCandidates
from jpr.models.prefix_scorer import PrefixScorer
from jpr.rerank.evidence import Words, evidence
from jpr.rerank.joint import Decoding
from jpr.rerank.joint_torch import passages_of
from jpr.train.batch import BatchBuilder, Spans
from jpr.train.dynamic_oracle import Bits, Flags, Whole
from jpr.train.sampler import CandidateBatch, Dataset

FIRST_STAGE, INDEPENDENT, JOINT = "first-stage", "independent", "joint"


@dataclass(frozen=True, slots=True)
class Scores:
    """MRecall@k of one way to choose."""

    all: float
    multi: float
    """Of the questions with several answers."""


class Chooser:
    """A model as it is judged: on a GPU a copy of it in 16 bits, with recorded steps."""

    def __init__(self, model: JointModel, words: Words, ways: Mapping[str, Decoding]) -> None:
        """Take the weights as they are now, and the ways in which passages are to be chosen."""
        on_gpu = next(model.parameters()).is_cuda
        self._model = deepcopy(model).bfloat16().eval() if on_gpu else model
        self._rooms = CachePool(self._model)
        self._ahead = 12 if on_gpu else 4
        self._words, self.ways = words, ways

    @torch.inference_mode()
    def __call__(self, candidates: PackedCandidates, k: int) -> dict[str, list[Decoded]]:
        """Return what is chosen in each way, question by question."""
        encoded = self._rooms.encode(candidates)
        ask: Ask = PrefixScorer(self._model, encoded, self._rooms)
        passages = passages_of(candidates, encoded)
        known = None
        if passages is not None and any(way.adds_answers for way in self.ways.values()):
            known = [evidence(one, self._words) for one in passages]
        found = {}
        for name, way in self.ways.items():
            searches = [way.search(n, Limits(k), self._ahead) for n in candidates.counts]
            asked = ask
            if known is not None and way.adds_answers:
                asked = Covering(ask, known, way.relevance)
            found[name] = decode_many(searches, asked)
        return found


class Development:
    """A pack to be judged on, with what brings its tokens to the device."""

    def __init__(self, feed: Dataset, assembler: BatchBuilder, limit: int = 0) -> None:
        """Take all its questions, or so many of them, evenly spread."""
        total = len(feed.pack)
        if not total:
            raise DataError("a development pack has no questions")
        self.questions: Whole = np.linspace(
            0, total - 1, min(limit or total, total), dtype=np.int64
        )
        self.feed, self._assembler = feed, assembler

    def judge(self, choose: Chooser, k: int, batch: int) -> Mapping[str, Scores]:
        """Return the scores of the first stage's order and of every way to choose."""
        found: dict[str, list[Flags]] = {name: [] for name in (FIRST_STAGE, *choose.ways)}
        for first in range(0, len(self.questions), batch):
            listed = self.feed.listed(self.questions[first : first + batch], self.feed.longest)
            n = self.feed.pack.n_answers[listed.questions]
            for way, places in self.chosen(choose, listed, k).items():
                found[way].append(mrecall(listed.covers, places, n, k))
        multi = self.feed.pack.n_answers[self.questions] > 1
        return {name: _scores(np.concatenate(parts), multi) for name, parts in found.items()}

    def chosen(
        self, choose: Chooser, listed: CandidateBatch, k: int
    ) -> dict[str, list[Sequence[int]]]:
        """Return the places of the candidates that are chosen each way, question by question."""
        there = listed.inside.sum(axis=1)
        chosen: dict[str, list[Sequence[int]]] = {
            name: [range(min(k, n)) for n in there.tolist()] for name in (FIRST_STAGE, *choose.ways)
        }
        some = np.flatnonzero(there)
        if len(some):
            candidates = assembled(self._assembler, listed.rows(some))
            for name, decoded in choose(candidates, k).items():
                for row, one in zip(some.tolist(), decoded, strict=True):
                    chosen[name][row] = one.passages
        return chosen


def mrecall(
    covers: Bits, chosen: Sequence[Sequence[int]], n_answers: NDArray[np.integer], k: int
) -> Flags:
    """Tell for which questions the first k chosen candidates cover enough of the answers."""
    covered = np.zeros((len(chosen), covers.shape[2]), dtype=np.uint8)
    for row, places in enumerate(chosen):
        covered[row] = np.bitwise_or.reduce(covers[row, list(places[:k])], axis=0)
    found = np.unpackbits(covered, axis=1).sum(axis=1)
    reached: Flags = (found >= np.minimum(n_answers, k)) & (n_answers > 0)
    return reached


def _scores(reached: Flags, multi: Flags) -> Scores:
    of_multi = float(reached[multi].mean()) if multi.any() else 0.0
    return Scores(float(reached.mean()), of_multi)


def assembled(
    assembler: BatchBuilder, listed: CandidateBatch, numbers: Whole | None = None
) -> PackedCandidates:
    """Return candidates as the model takes them; without numbers, each is known by its place."""
    if numbers is None:
        numbers = np.broadcast_to(np.arange(listed.edges.shape[1]), listed.edges.shape)
    return assembler.assemble(*_placed(assembler, listed.questions, listed.edges, numbers))


def answers_of(assembler: BatchBuilder, listed: CandidateBatch) -> Spans:
    """Return where the answers of `assembled` candidates stand."""
    return assembler.answers(*_placed(assembler, listed.questions, listed.edges))


def _placed(assembler: BatchBuilder, *arrays: Whole) -> list[Tensor]:
    device = assembler.tokens.device
    return [torch.from_numpy(np.array(one)).to(device) for one in arrays]


@torch.inference_mode()
def score_pack(
    model: JointModel, feed: Dataset, assembler: BatchBuilder, batch: int = 32
) -> NDArray[np.float16]:
    """Return log P of every candidate of a pack (E,) to be the first: IndepPR's s(p)."""
    scores = np.zeros(len(feed.pack.candidates), dtype=np.float16)
    for listed in _batches(feed, batch):
        candidates = assembled(assembler, listed)
        with precision(candidates.ids.device):
            encoded = model.encode(candidates)
            none = torch.zeros(
                len(listed.questions), 0, dtype=torch.long, device=encoded.mask.device
            )
            log_probs = model.log_probs(encoded, none)[:, 0]
        widest = log_probs.shape[1]
        inside = listed.inside[:, :widest]
        scores[listed.edges[:, :widest][inside]] = log_probs.float().cpu().numpy()[inside]
    return scores


def _batches(feed: Dataset, batch: int) -> Iterator[CandidateBatch]:
    some = np.flatnonzero(np.diff(feed.pack.candidate_starts))
    for first in range(0, len(some), batch):
        yield feed.listed(some[first : first + batch], feed.longest)


def precision(device: torch.device) -> torch.autocast:
    """Return 16 bits where there is a GPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
