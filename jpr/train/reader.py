"""Training of a reader: a T5 that writes the answers which its passages contain."""

from copy import copy
from dataclasses import dataclass, replace
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
from jpr.models.generation import GenerateOptions
from jpr.models.t5 import T5
from jpr.models.t5_checkpoint import read_t5
from jpr.read.generate import READER_JSON, read_reader_json, write_reader
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.train.batch import BatchBuilder
from jpr.train.distributed import ALONE, World, autocast
from jpr.train.dynamic_oracle import Ints, has_answer
from jpr.train.joint import extra_tokens, open_dataset
from jpr.train.loop import DevScore, Hooks, PartialLoss, Report, train
from jpr.train.recipe import DataConfig, ReaderConfig, ReaderTraining
from jpr.train.sampler import CandidateBatch, Dataset, Sampler
from jpr.train.state import RunProgress

SEPARATOR, END, NONE = -1, -2, -3  # stand for the tokens between and after answers, and for padding
_IGNORED = -100  # the label that cross-entropy ignores


def load_reader(config: ReaderConfig) -> tuple[T5, Prompts, GenerateOptions]:
    """Return the T5 to train, its prompts and how it generates."""
    home = Path(config.weights)
    tokenizer = read_tokenizer(home)
    if (home / READER_JSON).exists():
        settings, options = read_reader_json(home)
        checked_sums(home / READER_JSON)
    else:
        index, separator = extra_tokens(tokenizer, home, 2)
        settings = PromptSettings("t5", max_tokens=config.max_tokens, number_tokens=(index,))
        options = GenerateOptions(separator)
    model = read_t5(home, dropout=config.dropout)
    return model, Prompts(tokenizer, settings), replace(options, longest=config.max_answer_tokens)


@dataclass(frozen=True, slots=True)
class PackReader:
    """A reader of k candidates of each question of a pack, on the pack's device."""

    model: T5
    prompts: Prompts
    options: GenerateOptions
    k: int

    def memory(self, builder: BatchBuilder, batch: CandidateBatch) -> tuple[Tensor, Tensor, int]:
        """Return the encoded tokens, their number per question (Q,), and in all."""
        candidates = builder.build(batch)
        memory = self.model.encoder.forward_packed(candidates.ids, candidates.lengths)
        owner = torch.from_numpy(np.repeat(np.arange(len(candidates.counts)), candidates.counts))
        lengths = torch.zeros(len(candidates.counts), dtype=torch.long, device=memory.device)
        lengths = lengths.index_add(0, owner.to(memory.device), candidates.lengths)
        return memory, lengths, len(candidates.ids)

    def loss(
        self,
        dataset: Dataset,
        builder: BatchBuilder,
        batch: CandidateBatch,
        noise: NDArray[np.floating] | None = None,
    ) -> tuple[Tensor, int]:
        """Return the loss per token of each question's answers (Q,), and the tokens read."""
        batch, config = top_candidates(dataset, batch, self.k), self.model.config
        positions = answer_positions(builder, batch, self.options.longest, noise)
        ends = self.options.separator, config.eos_token_id
        targets = target_tokens(builder, positions, *ends, config.pad_token_id)
        exists = torch.from_numpy(positions != NONE).to(targets.device)
        memory, lengths, tokens = self.memory(builder, batch)
        start = targets.new_full((len(targets), 1), config.decoder_start_token_id)
        logits = self.model.logits(torch.cat([start, targets[:, :-1]], 1), memory, lengths)
        labels = targets.masked_fill(~exists, _IGNORED)
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=_IGNORED, reduction="none"
        )
        return loss.view_as(labels).sum(1) / exists.sum(1).clamp(min=1), tokens


def top_candidates(dataset: Dataset, batch: CandidateBatch, k: int) -> CandidateBatch:
    """Return k candidates of each question: those with the highest scores, or the first."""
    if dataset.scores is None:
        return CandidateBatch(batch.questions, batch.edges[:, :k], batch.covers[:, :k])
    scores = np.where(batch.present, dataset.scores[batch.edges].astype(np.float64), -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    read = np.take_along_axis(scores, order, axis=1) > -np.inf
    return batch.select(np.where(read, order, -1))


def answer_positions(
    builder: BatchBuilder,
    batch: CandidateBatch,
    max_tokens: int,
    noise: NDArray[np.floating] | None = None,
) -> Ints:
    """Return the positions in the pack of the target tokens of each question (Q, T).

    Every answer comes once, from the first passage that contains it uncut, in order of appearance
    or, with noise (Q, …), in random order. Answers beyond `max_tokens` in all are left out.
    """
    spans = builder.answer_spans(batch)
    question, lengths = np.nonzero(batch.present)[0][spans.candidates], spans.last - spans.first + 1
    columns = np.stack([question, spans.answers, spans.positions, lengths], 1)
    answers: list[dict[int, tuple[int, int]]] = [{} for _ in batch.questions]
    for of, answer, start, length in columns[np.lexsort((lengths, spans.first))].tolist():
        answers[of].setdefault(answer, (start, length))
    rows = []
    for at, of_question in enumerate(answers):
        chosen = list(dict.fromkeys(of_question.values()))
        if noise is not None:
            rng = np.random.default_rng(int(noise[at, 0] * 2**32))
            chosen = [chosen[i] for i in rng.permutation(len(chosen))]
        row: list[int] = []
        for start, length in chosen:
            if len(row) + length + 1 <= max_tokens:
                row += [*range(start, start + length), SEPARATOR]
        rows.append([*row[:-1], END] if row else [])
    width = max([1, *map(len, rows)])
    return np.array([row + [NONE] * (width - len(row)) for row in rows], dtype=np.int64)


def target_tokens(
    builder: BatchBuilder, positions: Ints, separator: int, end: int, padding: int
) -> Tensor:
    """Return the tokens at these positions (Q, T), on the builder's device."""
    at = torch.from_numpy(positions).to(builder.device)
    tokens = builder.tokens[at.clamp(min=0) + builder.first_passage].long() & 0xFFFF
    for sign, token in ((SEPARATOR, separator), (END, end), (NONE, padding)):
        tokens = tokens.masked_fill(at == sign, token)
    return tokens


def with_targets(dataset: Dataset, k: int) -> Dataset:
    """Return a data set without the questions whose k read passages contain no answer."""
    usable = [np.empty(0, dtype=np.int64)]
    for batch in dataset.batches(dataset.usable, 0, 256):
        answered = has_answer(top_candidates(dataset, batch, k).covers).any(axis=1)
        usable.append(batch.questions[answered])
    found = copy(dataset)
    found.usable = np.concatenate(usable)
    if not len(found.usable):
        raise DataError(f"no question has an answer in the {k} passages that are read; read more")
    return found


def train_reader(
    config: ReaderTraining,
    out: Path,
    *,
    report: Report = lambda _line: None,
    world: World = ALONE,
) -> RunProgress:
    """Train into a folder by a recipe; if the folder holds the state of the same run, resume."""
    datasets = [with_targets(open_dataset(one), config.k) for one in config.data]
    torch.manual_seed(config.loop.seed)
    model, prompts, options = load_reader(config.reader)
    model = model.to(world.device)
    model.encoder.checkpointing = config.reader.checkpointing
    reader = PackReader(model, prompts, options, config.k)
    dev = [with_targets(open_dataset(DataConfig(pack)), config.k) for pack in config.dev.packs]
    builders = {one: BatchBuilder(one.pack, prompts, world.device) for one in (*datasets, *dev)}
    sampler = Sampler(datasets, batch=config.batch, candidates=0, k=config.k, seed=config.loop.seed)

    def loss_of(step: int, part: int, parts: int) -> PartialLoss:
        total, read = torch.zeros((), device=world.device), 0
        for one in sampler.part(step, part, parts, 0):
            noise = one.noise[0] if config.reader.order == "shuffled" else None
            loss, tokens = reader.loss(one.dataset, builders[one.dataset], one.batch, noise)
            total, read = total + loss.sum(), read + tokens
        return PartialLoss(total / config.batch, read)

    def evaluate() -> DevScore:
        losses = {}
        for pack, one in zip(config.dev.packs, dev, strict=True):
            batches = one.batches(one.usable, config.dev.limit, config.dev.batch)
            with torch.inference_mode(), autocast(builders[one].device):
                found = [reader.loss(one, builders[one], batch)[0] for batch in batches]
            mean = torch.cat([loss.float().cpu() for loss in found]).mean()
            losses[f"{Path(pack).name} loss"] = float(mean)
        return DevScore(-float(np.mean(list(losses.values()))), losses)

    def keep(_: int) -> None:
        tokenizer = Path(config.reader.weights) / "tokenizer.json"
        copy_file(tokenizer, out / "tokenizer.json")
        write_reader(out, model, prompts.settings, options)

    hooks = Hooks(evaluate if dev else None, keep, report)
    return train(model, loss_of, config.loop, out, hooks, world=world)
