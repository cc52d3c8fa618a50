"""Training of a joint reranker: model, packs, objective and loop put together.

OUT/joint.json, model.safetensors, tokenizer.json   the best weights, for jpr rerank
OUT/log.jsonl, state.safetensors                    the log, and the state to resume from
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, DataError, FormatError, JprError
from jpr.io.atomic import copy_file, publish_binary
from jpr.models.heads import IndexHead, PointerHead, SpanHead
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import joint_over_bert, joint_over_t5, read_joint, write_joint
from jpr.models.t5 import T5Encoder
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import Vocabulary
from jpr.rerank.prompt import Prompts, PromptSettings, read_prompt_settings
from jpr.train.batch import BatchBuilder
from jpr.train.development import INDEPENDENT, JOINT, Chooser, Development, score_pack
from jpr.train.distributed import World
from jpr.train.loop import DevScore, Hooks, Report, silent, train
from jpr.train.loss import JointLoss
from jpr.train.pack import Pack
from jpr.train.recipe import DataConfig, JointTraining, ModelConfig
from jpr.train.sampler import Dataset, Sampler
from jpr.train.state import RunProgress

_FRESH = {"bert": ("decoder.", "head."), "t5": ("head.",)}
"""Names of randomly initialized weights: the decoder over an encoder, the pointer over a T5."""


def load_model(config: ModelConfig) -> tuple[JointModel, Prompts]:
    """Return the model to train, and its prompts."""
    home = Path(config.init or config.weights)
    tokenizer = read_tokenizer(home / "tokenizer.json")
    if config.init:
        model, settings = _trained_model(home, config)
    elif config.encoder == "bert":
        settings = PromptSettings("bert", max_tokens=config.max_tokens)
        memory = config.memory or "passages"
        model = joint_over_bert(home, config.layers, config.dropout, memory, config.answers)
    else:
        count = config.index_tokens if config.head == "index" else 1
        tokens = extra_tokens(tokenizer, home, count)
        settings = PromptSettings("t5", max_tokens=config.max_tokens, number_tokens=tokens)
        memory, answers = config.memory or "tokens", config.answers
        model = joint_over_t5(home, config.head, tokens, config.dropout, memory, answers)
        if config.head == "index" and config.reset_index_tokens:
            _reset_index_tokens(model)
    return model, Prompts(tokenizer, settings)


def _trained_model(home: Path, config: ModelConfig) -> tuple[JointModel, PromptSettings]:
    model, _ = read_joint(home)
    if config.head == "index" and isinstance(model.head, PointerHead):
        raise ConfigError(
            f"model.init: {home} has a pointer head, without index tokens; remove "
            "model.head = 'index', or start from model.weights"
        )
    for part in model.modules():
        if "dropout" in vars(part):
            vars(part)["dropout"] = config.dropout
    model.memory = config.memory or model.memory
    return model, read_prompt_settings(home)


def _reset_index_tokens(model: JointModel) -> None:
    assert isinstance(model.head, IndexHead)
    assert isinstance(model.encoder, T5Encoder)  # no other encoder has an index head
    model.head.reset_index_tokens()
    model.encoder.config = replace(model.encoder.config, tie_word_embeddings=False)


def extra_tokens(tokenizer: Tokenizer, home: Path, count: int) -> tuple[int, ...]:
    """Return the first `<extra_id>` tokens of a T5, which are used as index tokens."""
    found = [tokenizer.token_to_id(f"<extra_id_{i}>") for i in range(count)]
    tokens = tuple(token for token in found if token is not None)
    if len(tokens) < count:
        raise ConfigError(f"{home}: its tokenizer has {len(tokens)} of {count} <extra_id> tokens")
    return tokens


def _fresh(config: ModelConfig, model: JointModel) -> tuple[str, ...]:
    """Return the prefixes of names of new weights, after adding a missing answer head."""
    index = ("head.out",) if config.reset_index_tokens else ()  # an index head's
    if not config.init:
        return "answers.", *index, *(() if config.head == "index" else _FRESH[config.encoder])
    if not config.answers or model.answers is not None:
        return index
    model.answers = SpanHead(model.decoder.config.d_model)
    return "answers.", *index


def open_dataset(config: DataConfig) -> Dataset:
    """Open a pack and the scores that belong to it."""
    scores = None
    if config.scores:
        try:
            scores = np.load(config.scores, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            problem = f"is not an array ({error}); write it with numpy.save"
            raise FormatError(config.scores, 0, problem) from error
    try:
        return Dataset(Pack.open(config.pack), config.weight, scores, config.sources)
    except DataError as error:
        raise DataError(f"{config.pack}: {error}") from error


def train_joint(
    config: JointTraining,
    out: Path,
    *,
    report: Report = silent,
    device: str = "cpu",
    world: World | None = None,
) -> RunProgress:
    """Train into a folder by a recipe; if the folder holds the state of the same run, resume."""
    world = world or World()
    teacher = _read_teacher(config.objective.teacher)
    datasets = [
        open_dataset(_with_scores(one, out / f"scores-{at}.npy", device, world))
        for at, one in enumerate(config.data)
    ]
    torch.manual_seed(config.loop.seed)
    model, prompts = load_model(config.model)
    fresh = _fresh(config.model, model)
    model = model.to(device)
    model.encoder.checkpointing = config.model.checkpointing
    if isinstance(model.head, PointerHead):
        model.head.prior.requires_grad_(config.model.prior)
    sampler = Sampler(
        datasets,
        batch=config.batch,
        candidates=config.candidates,
        k=config.k,
        seed=config.loop.seed,
        random_negatives=config.random_negatives,
    )
    builders = {dataset: BatchBuilder(dataset.pack, prompts, device) for dataset in datasets}
    developments = {}
    for pack in config.dev.packs:
        dev = open_dataset(DataConfig(pack))
        builder = BatchBuilder(dev.pack, prompts, device)
        developments[pack] = Development(dev, builder, config.dev.limit)
    home = Path(config.model.init or config.model.weights)
    words = Vocabulary.of(prompts.tokenizer)
    joint = config.objective.kind == "joint"
    decoding = {"decoder": config.dev.decoder if joint else INDEPENDENT, "beta": config.dev.beta}

    def evaluate() -> DevScore:
        return evaluate_model(model, words, developments, config)

    def keep(_: int) -> None:
        copy_file(home / "tokenizer.json", out / "tokenizer.json")
        write_joint(out, model, asdict(prompts.settings), decoding)

    if teacher is not None:
        _check_same_prompts(prompts, teacher[1])
    taught_by = teacher[0].to(device).eval() if teacher else None
    loss = JointLoss(model, sampler, builders, config, world, taught_by)
    hooks = Hooks(evaluate if developments else None, keep, report)
    return train(model, loss, config.loop, out, hooks, fresh=fresh, world=world)


def _with_scores(config: DataConfig, file: Path, device: str, world: World) -> DataConfig:
    """Score the candidates with the scorer that a data set names, if any, once per folder."""
    if not config.scorer:
        return config
    if world.is_first and not file.exists():
        model, prompts = load_model(ModelConfig(init=config.scorer))
        dataset = open_dataset(DataConfig(config.pack))
        builder = BatchBuilder(dataset.pack, prompts, device)
        with publish_binary(file) as stream:
            np.save(stream, score_pack(model.to(device).eval(), dataset, builder))
    world.wait()
    return replace(config, scores=str(file), scorer="")


def _read_teacher(folder: str) -> tuple[JointModel, Prompts] | None:
    if not folder:
        return None
    try:
        return load_model(ModelConfig(init=folder))
    except JprError as error:
        raise ConfigError(
            f"objective.teacher: {error}; give a folder that jpr train wrote"
        ) from error


def _check_same_prompts(prompts: Prompts, teacher: Prompts) -> None:
    """Reject a teacher that does not read the same tokens as the model."""
    ours, theirs = asdict(prompts.settings), asdict(teacher.settings)
    different = [name for name, value in ours.items() if theirs[name] != value]
    if teacher.tokenizer.to_str() != prompts.tokenizer.to_str():
        different.append("tokenizer")
    if different:
        raise ConfigError(
            f"objective.teacher: its prompt differs from the model's ({', '.join(different)}); "
            "give a teacher with the same prompt"
        )


def evaluate_model(
    model: JointModel,
    words: Vocabulary,
    developments: Mapping[str, Development],
    config: JointTraining,
) -> DevScore:
    """Return the mean MRecall@k over packs that decides, and all scores by pack and way."""
    dev, deciding = config.dev, JOINT if config.objective.kind == "joint" else INDEPENDENT
    ways = {INDEPENDENT: Decoding("independent"), JOINT: Decoding(dev.decoder, dev.beta)}
    choose = Chooser(model, words, ways)
    found = {pack: one.evaluate(choose, config.k, dev.batch) for pack, one in developments.items()}
    details = {
        f"{Path(pack).name} {way} {part}": value
        for pack, of_pack in found.items()
        for way, scores in of_pack.items()
        for part, value in scores.items()
    }
    values = [details[f"{Path(pack).name} {deciding} {dev.select}"] for pack in found]
    return DevScore(float(np.mean(values)), details)
