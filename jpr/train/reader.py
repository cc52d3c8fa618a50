"""Training of a reader: a T5 that writes the answers which its passages contain.

OUT/reader.json, config.json, model.safetensors, tokenizer.json   the best weights, for jpr read
OUT/log.jsonl, state.safetensors                                  how it went, and to go on
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import DataError
from jpr.io.atomic import copy_file
from jpr.io.checksums import checked_sums
from jpr.models.generation import GeneratedAnswer, GenerateOptions, generate_answers
from jpr.models.t5 import T5
from jpr.models.t5_checkpoint import read_t5
from jpr.models.tries import Tries
from jpr.read.fusion import ABOUT, read_about, tries_of, write_reader
from jpr.rerank.evidence import Words
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.train.answer_targets import NONE, answer_places, written_out
from jpr.train.batch import BatchBuilder
from jpr.train.development import assembled, precision
from jpr.train.distributed import World
from jpr.train.joint import number_tokens, open_dataset
from jpr.train.loop import Hooks, Part, Score, train
from jpr.train.recipe import DataConfig, ReaderConfig, ReaderTraining
from jpr.train.sampler import CandidateBatch, Dataset, Sampler
from jpr.train.state import Progress

_IGNORED = -100
"""What cross-entropy takes no notice of."""


def begin_reader(config: ReaderConfig) -> tuple[T5, Prompts, GenerateOptions]:
    """Return the T5 to train, and how it reads and writes."""
    home = Path(config.weights)
    tokenizer = read_tokenizer(home / "tokenizer.json")
    if (home / ABOUT).exists():
        settings, ways = read_about(home)
        checked_sums(home / ABOUT)
    else:
        mark, separator = number_tokens(tokenizer, home, 2)
        settings = PromptSettings("t5", max_tokens=config.max_tokens, number_tokens=(mark,))
        ways = GenerateOptions(separator)
    model = read_t5(home, dropout=config.dropout)
    return model, Prompts(tokenizer, settings), replace(ways, longest=config.longest)


class Reading:
    """A reader over the passages of a pack, on its device."""

    def __init__(self, model: T5, prompts: Prompts, ways: GenerateOptions, k: int) -> None:
        """Take k passages of each question."""
        self.model, self.prompts, self.ways, self.k = model, prompts, ways, k
        self._words = Words.of(prompts.tokenizer)

    def memory(self, assembler: BatchBuilder, listed: CandidateBatch) -> tuple[Tensor, Tensor, int]:
        """Return what questions attend to, how much of it each, and how many tokens were read."""
        candidates = assembled(assembler, listed)
        owners = np.repeat(np.arange(len(candidates.counts)), candidates.counts)
        memory = self.model.encoder.forward_packed(candidates.ids, candidates.lengths)
        lengths = torch.zeros(len(candidates.counts), dtype=torch.long, device=memory.device)
        owner = torch.from_numpy(owners).to(memory.device)
        return memory, lengths.index_add(0, owner, candidates.lengths), len(candidates.ids)

    def loss(
        self,
        feed: Dataset,
        assembler: BatchBuilder,
        listed: CandidateBatch,
        noise: NDArray[np.floating] | None = None,
    ) -> tuple[Tensor, int]:
        """Return the loss per token of each question's answers (Q,), and the tokens read."""
        listed = self.chosen(feed, listed)
        config, longest = self.model.config, self.ways.longest
        places = answer_places(feed, listed, self.prompts, longest, noise)
        ends = self.ways.separator, config.eos_token_id
        wanted = written_out(assembler, places, *ends, config.pad_token_id)
        there = torch.from_numpy(places != NONE).to(wanted.device)
        memory, lengths, tokens = self.memory(assembler, listed)
        start = wanted.new_full((len(wanted), 1), config.decoder_start_token_id)
        logits = self.model.logits(torch.cat([start, wanted[:, :-1]], 1), memory, lengths)
        labels = wanted.masked_fill(~there, _IGNORED)
        each = F.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=_IGNORED, reduction="none"
        )
        return each.view_as(labels).sum(1) / there.sum(1).clamp(min=1), tokens

    def chosen(self, feed: Dataset, listed: CandidateBatch) -> CandidateBatch:
        """Return k candidates of each question: the best by the feed's scores, or the first."""
        if feed.scores is None:
            return CandidateBatch(
                listed.questions, listed.edges[:, : self.k], listed.covers[:, : self.k]
            )
        scores = np.where(listed.inside, listed.values(feed.scores), -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        there = np.take_along_axis(scores, order, axis=1) > -np.inf
        return listed.at(np.where(there, order, -1))

    @torch.inference_mode()
    def write(
        self,
        feed: Dataset,
        assembler: BatchBuilder,
        listed: CandidateBatch,
        *,
        grounded: bool = True,
    ) -> list[list[GeneratedAnswer]]:
        """Return the answers that are written for questions which have passages."""
        listed = self.chosen(feed, listed)
        memory, lengths, _ = self.memory(assembler, listed)
        tries = self._tries(assembler, listed) if grounded else None
        return generate_answers(self.model, memory, lengths, self.ways, tries)

    def _tries(self, assembler: BatchBuilder, listed: CandidateBatch) -> Tries:
        """Return the runs of titles and texts of questions' passages."""
        device, inside = assembler.tokens.device, listed.inside
        ids, lengths = assembler.texts(torch.from_numpy(listed.edges[inside]).to(device))
        texts = torch.from_numpy(2 * inside.sum(axis=1)).to(device)
        return tries_of(ids, lengths, texts, self._words, self.prompts, self.ways)


def with_targets(feed: Dataset, k: int) -> Dataset:
    """Return the same feed without questions to which the passages that are read have no answer."""
    pack = feed.pack
    starts = np.asarray(pack.candidate_starts)
    owner = np.repeat(np.arange(len(pack)), np.diff(starts))
    rank = np.arange(len(owner)) - starts[owner]
    there = np.ones(len(owner), dtype=np.bool_)
    if feed.scores is not None:
        scores = np.asarray(feed.scores, dtype=np.float64)
        order = np.lexsort((rank, -scores, owner))  # question by question, best first
        rank[order], there = np.arange(len(owner)) - starts[owner[order]], scores > -np.inf
    read = (rank < k) & there
    answered = np.unique(owner[pack.cover_edges[read[pack.cover_edges]]])
    found = copy(feed)
    found.usable = np.intersect1d(feed.usable, answered)
    if not len(found.usable):
        raise DataError(
            "no question has an answer in the passages that are read; give more of them"
        )
    return found


def train_reader(
    config: ReaderTraining,
    out: Path,
    *,
    tell: Callable[[Mapping[str, object]], None] = lambda _line: None,
    device: str = "cpu",
    world: World | None = None,
) -> Progress:
    """Train by a recipe into a folder; where that holds the state of the same run, go on."""
    world = world or World()
    feeds = [with_targets(open_dataset(one), config.k) for one in config.data]
    torch.manual_seed(config.loop.seed)
    model, prompts, ways = begin_reader(config.reader)
    model = model.to(device)
    model.encoder.checkpointing = config.reader.checkpointing
    reading = Reading(model, prompts, ways, config.k)
    assemblers = {feed: BatchBuilder.of(feed.pack, prompts, device) for feed in feeds}
    developments = [with_targets(open_dataset(DataConfig(p)), config.k) for p in config.dev.packs]
    judges = {feed: BatchBuilder.of(feed.pack, prompts, device) for feed in developments}
    home = Path(config.reader.weights)

    def evaluate() -> Score:
        told = {
            f"{Path(pack).name} loss": _dev_loss(reading, feed, judges[feed], config)
            for pack, feed in zip(config.dev.packs, developments, strict=True)
        }
        return Score(-float(np.mean(list(told.values()))), told)

    def keep(_: int) -> None:
        copy_file(home / "tokenizer.json", out / "tokenizer.json")
        write_reader(out, model, prompts.settings, ways)

    loss = _ReaderLoss(reading, feeds, assemblers, config, world)
    hooks = Hooks(evaluate if developments else None, keep, tell)
    return train(model, loss, config.loop, out, hooks, world=world)


class _ReaderLoss:
    """The loss of a part of a step's batch."""

    def __init__(
        self,
        reading: Reading,
        feeds: Sequence[Dataset],
        assemblers: Mapping[Dataset, BatchBuilder],
        config: ReaderTraining,
        world: World,
    ) -> None:
        world.check_batch(config.batch, config.loop.micros)
        self._reading, self._assemblers = reading, assemblers
        self._config, self._world = config, world
        self._draws = Sampler(
            feeds, batch=config.batch, candidates=0, k=config.k, seed=config.loop.seed
        )

    def __call__(self, step: int, rank: int, micro: int) -> Part:
        """Return the loss of a part, over the number of questions in the whole batch."""
        parts = self._world.size * self._config.loop.micros
        drawn = self._draws.part(step, micro * self._world.size + rank, parts, 0)
        shuffled = self._config.reader.order == "shuffled"
        total, read = torch.zeros((), device=next(self._reading.model.parameters()).device), 0
        for one in drawn:
            noise = one.noise[0] if shuffled else None
            each, tokens = self._reading.loss(
                one.feed, self._assemblers[one.feed], one.listed, noise
            )
            total, read = total + each.sum(), read + tokens
        return Part(total / self._config.batch, read)


@torch.inference_mode()
def _dev_loss(
    reading: Reading, feed: Dataset, assembler: BatchBuilder, config: ReaderTraining
) -> float:
    """Return the mean loss over a pack's questions to which some passage has an answer."""
    with precision(assembler.tokens.device):
        found = [
            reading.loss(feed, assembler, listed)[0].float().cpu()
            for listed in some_listed(feed, config.dev.limit, config.dev.batch)
        ]
    return float(torch.cat(found).mean())


def some_listed(feed: Dataset, limit: int, batch: int) -> Iterator[CandidateBatch]:
    """Yield the usable questions of a pack, or so many of them evenly spread, some at a time."""
    usable = feed.usable
    some = usable[
        np.linspace(0, len(usable) - 1, min(limit or len(usable), len(usable))).astype(int)
    ]
    for first in range(0, len(some), batch):
        yield feed.listed(some[first : first + batch], feed.longest)
