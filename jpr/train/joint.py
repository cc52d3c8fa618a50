"""Training of a joint reranker: model, packs, objective and loop put together."""

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
from jpr.train.development import INDEPENDENT, JOINT, Chooser, evaluate_pack, score_pack
from jpr.train.distributed import ALONE, World
from jpr.train.loop import DevScore, Hooks, Report, train
from jpr.train.loss import JointLoss
from jpr.train.pack import Pack
from jpr.train.recipe import DataConfig, JointTraining, ModelConfig
from jpr.train.sampler import Dataset, Sampler
from jpr.train.state import RunProgress


def load_model(config: ModelConfig) -> tuple[JointModel, Prompts]:
    """Return the model to train, and its prompts."""
    home = Path(config.init or config.weights)
    tokenizer = read_tokenizer(home)
    if config.init:
        model = read_joint(home)
        if config.head == "index" and isinstance(model.head, PointerHead):
            raise ConfigError(
                f"model.init: {home} has a pointer head, without index tokens; remove "
                "model.head = 'index', or start from model.weights"
            )
        for part in model.modules():
            if "dropout" in vars(part):
                vars(part)["dropout"] = config.dropout
        model.memory = config.memory or model.memory
        return model, Prompts(tokenizer, read_prompt_settings(home))
    if config.encoder == "bert":
        memory = config.memory or "passages"
        model = joint_over_bert(home, config.layers, config.dropout, memory, config.answers)
        return model, Prompts(tokenizer, PromptSettings("bert", max_tokens=config.max_tokens))
    is_index = config.head == "index"
    tokens = extra_tokens(tokenizer, home, config.index_tokens if is_index else 1)
    memory = config.memory or "tokens"
    model = joint_over_t5(home, config.head, tokens, config.dropout, memory, config.answers)
    if is_index and config.reset_index_tokens:
        assert isinstance(model.head, IndexHead)
        assert isinstance(model.encoder, T5Encoder)  # no other encoder has an index head
        model.head.reset_index_tokens()
        model.encoder.config = replace(model.encoder.config, tie_word_embeddings=False)
    settings = PromptSettings("t5", max_tokens=config.max_tokens, number_tokens=tokens)
    return model, Prompts(tokenizer, settings)


def extra_tokens(tokenizer: Tokenizer, home: Path, count: int) -> tuple[int, ...]:
    """Return the first `<extra_id>` tokens of a T5, which are used as index tokens."""
    found = [tokenizer.token_to_id(f"<extra_id_{i}>") for i in range(count)]
    tokens = tuple(token for token in found if token is not None)
    if len(tokens) < count:
        raise ConfigError(f"{home}: its tokenizer has {len(tokens)} of {count} <extra_id> tokens")
    return tokens


def _fresh(config: ModelConfig, model: JointModel) -> tuple[str, ...]:
    """Return the prefixes of names of new weights, after adding a missing span head."""
    fresh = ["head.out"] if config.reset_index_tokens else []  # an index head's
    if not config.init:
        fresh.append("answers.")
        if config.head == "pointer":
            fresh.append("head.")
        if config.encoder == "bert":
            fresh.append("decoder.")
    elif config.answers and model.answers is None:
        model.answers = SpanHead(model.decoder.config.d_model)
        fresh.append("answers.")
    return tuple(fresh)


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
    report: Report = lambda _line: None,
    world: World = ALONE,
) -> RunProgress:
    """Train into a folder by a recipe; if the folder holds the state of the same run, resume."""
    torch.manual_seed(config.loop.seed)
    model, prompts = load_model(config.model)
    fresh = _fresh(config.model, model)
    teacher = _load_teacher(config.objective.teacher, prompts, world.device)
    datasets = [
        open_dataset(_with_scores(one, out / f"scores-{at}.npy", world))
        for at, one in enumerate(config.data)
    ]
    model = model.to(world.device)
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
    dev = {Path(pack).name: open_dataset(DataConfig(pack)) for pack in config.dev.packs}
    if any(not len(dataset.pack) for dataset in dev.values()):
        raise DataError("a development pack has no questions")
    every = (*datasets, *dev.values())
    builders = {one: BatchBuilder(one.pack, prompts, world.device) for one in every}
    home = Path(config.model.init or config.model.weights)
    words = Vocabulary.of(prompts.tokenizer)
    deciding = JOINT if config.objective.kind == "joint" else INDEPENDENT
    ways = {
        INDEPENDENT: Decoding("independent"),
        JOINT: Decoding(config.dev.decoder, config.dev.beta),
    }

    def evaluate() -> DevScore:
        """Return the mean MRecall@k over packs that decides, and all scores by pack and way."""
        choose = Chooser(model, words, ways)
        details: dict[str, float] = {}
        for name, dataset in dev.items():
            scores = evaluate_pack(choose, dataset, builders[dataset], config.k, config.dev)
            details |= {f"{name} {kind}": score for kind, score in scores.items()}
        values = [details[f"{name} {deciding} {config.dev.select}"] for name in dev]
        return DevScore(float(np.mean(values)), details)

    def keep(_: int) -> None:
        copy_file(home / "tokenizer.json", out / "tokenizer.json")
        decoding = {"decoder": ways[deciding].decoder, "beta": config.dev.beta}
        write_joint(out, model, asdict(prompts.settings), decoding)

    loss = JointLoss(model, sampler, builders, config, teacher)
    hooks = Hooks(evaluate if dev else None, keep, report)
    return train(model, loss, config.loop, out, hooks, fresh=fresh, world=world)


def _with_scores(config: DataConfig, file: Path, world: World) -> DataConfig:
    """Score the candidates with the scorer that a data set names, if any, once per folder."""
    if not config.scorer:
        return config
    if world.is_first and not file.exists():
        model, prompts = load_model(ModelConfig(init=config.scorer))
        dataset = open_dataset(DataConfig(config.pack))
        builder = BatchBuilder(dataset.pack, prompts, world.device)
        with publish_binary(file) as stream:
            np.save(stream, score_pack(model.to(world.device).eval(), dataset, builder))
    world.wait()
    return replace(config, scores=str(file), scorer="")


def _load_teacher(folder: str, prompts: Prompts, device: str) -> JointModel | None:
    """Load a teacher, if there is one, which must read the same tokens as the model."""
    if not folder:
        return None
    try:
        teacher, read = load_model(ModelConfig(init=folder))
    except JprError as error:
        problem = f"{error}; give a folder that jpr train wrote"
        raise ConfigError(f"objective.teacher: {problem}") from error
    ours, theirs = asdict(prompts.settings), asdict(read.settings)
    different = [name for name, value in ours.items() if theirs[name] != value]
    if read.tokenizer.to_str() != prompts.tokenizer.to_str():
        different.append("tokenizer")
    if different:
        raise ConfigError(
            f"objective.teacher: its prompt differs from the model's ({', '.join(different)}); "
            "give a teacher with the same prompt"
        )
    return teacher.to(device).eval()
