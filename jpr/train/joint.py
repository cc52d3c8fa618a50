"""Training of a joint reranker: model, packs, objective and loop put together.

OUT/joint.json, model.safetensors, tokenizer.json   the best weights, ready for jpr rerank
OUT/log.jsonl, state.safetensors                    how it went, and what it takes to go on
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, DataError, FormatError, JprError
from jpr.io.atomic import copy_file
from jpr.models.heads import SpanHead
from jpr.models.joint import IndexHead, JointModel, PointerHead
from jpr.models.joint_checkpoint import (
    joint_over_bert,
    joint_over_t5,
    read_joint,
    write_joint,
)
from jpr.models.t5 import T5Encoder
from jpr.rerank.evidence import Words
from jpr.rerank.joint import Decoding
from jpr.rerank.prompt import Prompts, PromptSettings, read_prompt_settings
from jpr.train.batch import BatchBuilder
from jpr.train.development import INDEPENDENT, JOINT, Chooser, Development, Scores, score_pack
from jpr.train.distributed import World
from jpr.train.loop import Hooks, Score, train
from jpr.train.loss import JointLoss
from jpr.train.pack import Pack
from jpr.train.recipe import DataConfig, JointTraining, ModelConfig
from jpr.train.sampler import Dataset, Sampler
from jpr.train.state import Progress

_FRESH = {"bert": ("decoder.", "head."), "t5": ("head.",)}
"""The weights that begin at random: the decoder over an encoder, the pointer over a T5."""


def begin(config: ModelConfig) -> tuple[JointModel, Prompts]:
    """Return the model to train, and how it reads texts."""
    home = Path(config.init or config.weights)
    tokenizer = read_tokenizer(home / "tokenizer.json")
    if config.init:
        model, settings = _gone_on(home, config)
    elif config.encoder == "bert":
        settings = PromptSettings("bert", max_tokens=config.max_tokens)
        answers = config.answers
        memory = config.memory or "passages"
        model = joint_over_bert(home, config.layers, config.dropout, memory, answers)
    else:
        numbers = number_tokens(tokenizer, home, config.numbers if config.head == "index" else 1)
        settings = PromptSettings("t5", max_tokens=config.max_tokens, number_tokens=numbers)
        memory, answers = config.memory or "tokens", config.answers
        model = joint_over_t5(home, config.head, numbers, config.dropout, memory, answers)
        if config.head == "index" and config.numbers_anew:
            _number_anew(model)
    return model, Prompts(tokenizer, settings)


def _gone_on(home: Path, config: ModelConfig) -> tuple[JointModel, PromptSettings]:
    """Return a model that was trained before."""
    model, _ = read_joint(home)
    if config.head == "index" and isinstance(model.head, PointerHead):
        told = f"model.init: {home} points and knows no numbers; leave out model.head = 'index'"
        raise ConfigError(f"{told}, or begin with model.weights")
    set_dropout(model, config.dropout)
    model.memory = config.memory or model.memory
    return model, read_prompt_settings(home)


def _number_anew(model: JointModel) -> None:
    assert isinstance(model.head, IndexHead)
    assert isinstance(model.encoder, T5Encoder)  # no other has such a head
    model.head.reset_index_tokens()
    model.encoder.config = replace(model.encoder.config, tie_word_embeddings=False)


def number_tokens(tokenizer: Tokenizer, home: Path, count: int) -> tuple[int, ...]:
    """Return the tokens that stand for numbers."""
    found = [tokenizer.token_to_id(f"<extra_id_{i}>") for i in range(count)]
    numbers = tuple(token for token in found if token is not None)
    if len(numbers) < count:
        raise ConfigError(f"{home}: its tokenizer has {len(numbers)} of {count} <extra_id> tokens")
    return numbers


def _fresh(config: ModelConfig, model: JointModel) -> tuple[str, ...]:
    """Return how the names of new weights begin; a trained model learns to read answers here."""
    numbers = ("head.out",) if config.numbers_anew else ()  # an index head's
    if not config.init:
        return "answers.", *numbers, *(() if config.head == "index" else _FRESH[config.encoder])
    if not config.answers or model.answers is not None:
        return numbers
    model.answers = SpanHead(model.decoder.config.d_model)
    return "answers.", *numbers


def set_dropout(model: JointModel, dropout: float) -> None:
    """Let a model that was read for use forget this share of its numbers in training."""
    for part in model.modules():
        if "dropout" in vars(part):
            vars(part)["dropout"] = dropout


def open_dataset(config: DataConfig) -> Dataset:
    """Open a pack and the scores that belong to it."""
    try:
        scores = _numbers(config.scores)
        return Dataset(Pack.open(config.pack), config.weight, scores, config.sources)
    except DataError as error:
        raise DataError(f"{config.pack}: {error}") from error


def _numbers(file: str) -> NDArray[np.floating] | None:
    if not file:
        return None
    try:
        found: NDArray[np.floating] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(
            file, 0, f"holds no numbers ({error}); write it with numpy.save"
        ) from error
    return found


def write_scores(model: Path, pack: str, file: Path, device: str) -> None:
    """Write what a trained model, IndepPR, makes of every candidate of a pack (`score_pack`)."""
    scorer, prompts = begin(ModelConfig(init=str(model)))
    feed = open_dataset(DataConfig(pack))
    assembler = BatchBuilder.of(feed.pack, prompts, device)
    scores = score_pack(scorer.to(device).eval(), feed, assembler)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}")
    np.save(part, scores)
    part.replace(file)


def train_joint(
    config: JointTraining,
    out: Path,
    *,
    tell: Callable[[Mapping[str, object]], None] = lambda _line: None,
    device: str = "cpu",
    world: World | None = None,
) -> Progress:
    """Train by a recipe into a folder; where that holds the state of the same run, go on."""
    world = world or World()
    taught_by = _teacher(config.objective.teacher)
    feeds = [
        open_dataset(_scored(one, at, out, device, world)) for at, one in enumerate(config.data)
    ]
    torch.manual_seed(config.loop.seed)
    model, prompts = begin(config.model)
    fresh = _fresh(config.model, model)
    model = model.to(device)
    model.encoder.checkpointing = config.model.checkpointing
    if isinstance(model.head, PointerHead):
        model.head.prior.requires_grad_(config.model.prior)
    draws = Sampler(
        feeds,
        batch=config.batch,
        candidates=config.candidates,
        k=config.k,
        seed=config.loop.seed,
        strangers=config.strangers,
    )
    assemblers = {feed: BatchBuilder.of(feed.pack, prompts, device) for feed in feeds}
    developments = {pack: _development(pack, prompts, device, config) for pack in config.dev.packs}
    home = Path(config.model.init or config.model.weights)
    words = Words.of(prompts.tokenizer)
    joint = config.objective.kind == "joint"
    judged_by = {"decoder": config.dev.decoder if joint else INDEPENDENT, "beta": config.dev.beta}

    def evaluate() -> Score:
        return judged(model, words, developments, config)

    def keep(_: int) -> None:
        copy_file(home / "tokenizer.json", out / "tokenizer.json")
        write_joint(out, model, asdict(prompts.settings), judged_by)

    teacher = taught_by and _with_the_same(prompts, *taught_by).to(device)
    loss = JointLoss(model, draws, assemblers, config, world, teacher)
    hooks = Hooks(evaluate if developments else None, keep, tell)
    return train(model, loss, config.loop, out, hooks, fresh=fresh, world=world)


def _scored(config: DataConfig, at: int, out: Path, device: str, world: World) -> DataConfig:
    """Let the scorer that a feed names, if any, score its candidates, once per folder."""
    if not config.scorer:
        return config
    file = out / f"scores-{at}.npy"
    if world.is_first and not file.exists():
        write_scores(Path(config.scorer), config.pack, file, device)
    world.wait()
    return replace(config, scores=str(file), scorer="")


def _teacher(folder: str) -> tuple[JointModel, Prompts] | None:
    """Read the teacher, if there is one, and how it reads texts."""
    if not folder:
        return None
    try:
        return begin(ModelConfig(init=folder))
    except JprError as error:
        told = f"objective.teacher: {error}; give a folder that jpr train made"
        raise ConfigError(told) from error


def _with_the_same(prompts: Prompts, teacher: JointModel, theirs: Prompts) -> JointModel:
    """Return a teacher that sees the same tokens as the model it is to teach."""
    ours, other = asdict(prompts.settings), asdict(theirs.settings)
    unlike = [name for name, value in ours.items() if other[name] != value]
    if theirs.tokenizer.to_str() != prompts.tokenizer.to_str():
        unlike.append("tokenizer")
    if unlike:
        raise ConfigError(
            "objective.teacher: it reads texts otherwise than the model it is to teach "
            f"({', '.join(unlike)}); give one that reads them in the same way"
        )
    return teacher.eval()


def _development(pack: str, prompts: Prompts, device: str, config: JointTraining) -> Development:
    feed = open_dataset(DataConfig(pack))
    return Development(feed, BatchBuilder.of(feed.pack, prompts, device), config.dev.limit)


def judged(
    model: JointModel,
    words: Words,
    developments: Mapping[str, Development],
    config: JointTraining,
) -> Score:
    """Return the mean MRecall@k over packs that decides, and all numbers by pack and way."""
    dev, way = config.dev, JOINT if config.objective.kind == "joint" else INDEPENDENT
    ways = {INDEPENDENT: Decoding("independent"), JOINT: Decoding(dev.decoder, dev.beta)}
    choose = Chooser(model, words, ways)
    found = {pack: one.judge(choose, config.k, dev.batch) for pack, one in developments.items()}
    told = {
        f"{Path(pack).name} {name} {part}": value
        for pack, of_pack in found.items()
        for name, scores in of_pack.items()
        for part, value in asdict(scores).items()
    }
    deciding = [_deciding(of_pack[way], dev.select) for of_pack in found.values()]
    return Score(float(np.mean(deciding)), told)


def _deciding(scores: Scores, select: str) -> float:
    return scores.all if select == "all" else scores.multi
