"""Recipes: the settings by which a joint reranker or a reader is trained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jpr.io.settings import below, not_one_of, parse_table, read_tables, reject
from jpr.models.joint import MEMORIES
from jpr.models.joint_checkpoint import HEADS
from jpr.rerank.prompt import STYLES
from jpr.train.loop import LoopConfig
from jpr.types import DECODERS


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model to train: a trained joint model, or a new one over a pretrained encoder."""

    init: str = ""
    """Folder of a joint model to continue from; only dropout and memory can then be changed."""
    weights: str = ""
    """Hugging Face folder of the encoder (bert) or T5 to start from."""
    encoder: str = "bert"
    """`bert`, or `t5`, which has a decoder of its own."""
    head: str = "pointer"
    """`pointer`, or `index`, the paper's, which needs a T5."""
    layers: int = 2
    """bert: number of new decoder layers."""
    memory: str = ""
    """What the decoder attends to: one vector for each of the `passages`, or all their `tokens`.
    Default: passages for a BERT, tokens for a T5, unchanged for a trained model."""
    dropout: float = 0.1
    """Dropout probability."""
    prior: bool = True
    """pointer: learn the weight of the first-stage rank. Set to false if the first stage was
    trained on the same questions: its ranks are then better than on other questions."""
    checkpointing: bool = False
    """Recompute the activations of encoder blocks in the backward pass, to save memory."""
    index_tokens: int = 100
    """index: number of index tokens, the most candidates that the head can distinguish."""
    reset_index_tokens: bool = True
    """index: start with new embeddings of the index tokens. T5 was pretrained with about thirty of
    its hundred `<extra_id>` tokens; the others are nearly identical."""
    answers: bool = True
    """Also find answers in candidates, so that passages can be chosen for the answers they add; a
    model to continue from gets this head if it lacks it."""
    max_tokens: int = 256
    """Tokens of question and candidate together; the paper has 360."""

    def __post_init__(self) -> None:
        found = not_one_of(self, encoder=STYLES, head=HEADS, memory=("", *MEMORIES))
        if bool(self.init) == bool(self.weights):
            found.append(
                "weights, of a pretrained model, or init, of a joint one: give one of them"
            )
        if self.encoder == "bert" and self.head == "index":
            found.append("head = 'index' needs the vocabulary of a T5; set encoder = 't5'")
        if not 0 <= self.dropout < 1:
            found.append(f"dropout = {self.dropout}; give a number from 0 to below 1")
        reject(found + below(self, 1, "layers", "index_tokens", "max_tokens"))


@dataclass(frozen=True, slots=True)
class DataConfig:
    """A pack to train on."""

    pack: str
    """Folder that `jpr pack` wrote."""
    sources: tuple[str, ...] = ()
    """Use only the questions of these files, as named in `pack.json`."""
    weight: float = 1.0
    """Its share of every batch, relative to the other packs."""
    scores: str = ""
    """File (.npy) with one score per candidate. Reranker: IndepPR's scores, by which negatives are
    sampled. Reader: scores of the reranker whose passages it reads."""
    scorer: str = ""
    """Folder of an IndepPR model that computes these scores when training starts."""

    def __post_init__(self) -> None:
        found = [] if self.weight > 0 else [f"weight = {self.weight}; give more than 0"]
        if self.scores and self.scorer:
            found.append("scores and scorer: give one of them")
        reject(found)


@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    """The training objective."""

    kind: str = "joint"
    """`joint` (JPR), `independent` (IndepPR), or `pointwise`, yes or no for each candidate."""
    prefix: str = "dynamic"
    """joint: Õ and negatives, or Õ alone in random order or in that of IndepPR's scores."""
    targets: str = "oracle"
    """joint: Õ without the prefix, as printed, or all with an answer the prefix lacks."""
    normalize: str = "mean"
    """How the targets of a step count: `sum` as printed, their `mean`, or `any` of them."""
    gamma: float = 1.0
    """joint: weight of the Gumbel noise by which negatives are sampled."""
    teacher: str = ""
    """Folder of a trained joint model with the same prompt, whose distributions over candidates
    and of answer spans are distilled."""
    teacher_weight: float = 0.0
    """Weight of distillation in the loss, from 0 to 1."""
    answer_weight: float = 0.5
    """Weight of the loss of answer spans, for a model with a span head. A new head starts with 5 to
    10 per question (e⁻⁶ for each of a candidate's 1,000 spans, and 6 for each occurrence of an
    answer), the choice of five passages with about 5: one half makes them alike."""

    def __post_init__(self) -> None:
        found = not_one_of(
            self,
            kind=("joint", "independent", "pointwise"),
            prefix=("dynamic", "no-negatives", "teacher-forcing"),
            targets=("oracle", "uncovered"),
            normalize=("sum", "mean", "any"),
        )
        if not 0 <= self.teacher_weight <= 1:
            found.append(f"teacher_weight = {self.teacher_weight}; give a number from 0 to 1")
        if bool(self.teacher) != bool(self.teacher_weight):
            found.append("teacher and teacher_weight: give both or neither")
        if not 0 <= self.gamma < math.inf:
            found.append(f"gamma = {self.gamma}; give a number from 0")
        reject(found + below(self, 0, "answer_weight"))


@dataclass(frozen=True, slots=True)
class DevConfig:
    """Development data: the weights with the best mean MRecall@k over these packs are kept."""

    packs: tuple[str, ...] = ()
    """Folders that `jpr pack` wrote; without any, the last weights are kept."""
    limit: int = 0
    """Maximum number of questions per pack (evenly spaced); 0 takes all."""
    decoder: str = "seq"
    """How passages are chosen when a joint objective is evaluated."""
    beta: float = 2.0
    """tree, sets: the length penalty."""
    select: str = "all"
    """Questions that decide: `all`, or `multi`, those with several answers."""
    batch: int = 32
    """Questions per batch."""

    def __post_init__(self) -> None:
        found = not_one_of(self, decoder=DECODERS, select=("all", "multi"))
        reject(found + _same_names(self.packs) + below(self, 1, "batch") + below(self, 0, "limit"))


@dataclass(frozen=True, slots=True)
class JointTraining:
    """The recipe of a joint reranker."""

    loop: LoopConfig
    model: ModelConfig
    data: tuple[DataConfig, ...]
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    dev: DevConfig = field(default_factory=DevConfig)
    k: int = 5
    """Passages to choose."""
    batch: int = 64
    """Questions per step, over all processes."""
    candidates: int = 25
    """Candidates per question in training; 0 takes all. The paper has |B|/4."""
    random_negatives: float = 0.0
    """Share of candidates without an answer that other questions' candidates replace."""

    def __post_init__(self) -> None:
        found = below(self, 1, "k", "batch") + below(self, 0, "candidates") + _no_data(self.data)
        if not 0 <= self.random_negatives <= 1:
            found.append(f"random_negatives = {self.random_negatives}; give a number from 0 to 1")
        if 0 < self.candidates <= self.k:
            found.append(f"candidates = {self.candidates}; give more than k = {self.k}")
        reject(found)


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """The T5 that writes answers."""

    weights: str
    """Hugging Face folder of a T5 to start from, or of a reader to continue from."""
    dropout: float = 0.1
    """Dropout probability."""
    max_tokens: int = 256
    """Tokens of question and passage together."""
    max_answer_tokens: int = 40
    """Tokens of all answers; the paper has 20 for single-answer sets, 40 for multi-answer sets."""
    order: str = "appearance"
    """Order of the target answers: of `appearance` in the passages, or `shuffled`."""
    checkpointing: bool = False
    """Recompute the activations of encoder blocks in the backward pass, to save memory."""

    def __post_init__(self) -> None:
        found = not_one_of(self, order=("appearance", "shuffled"))
        if not 0 <= self.dropout < 1:
            found.append(f"dropout = {self.dropout}; give a number from 0 to below 1")
        reject(found + below(self, 2, "max_answer_tokens") + below(self, 1, "max_tokens"))


@dataclass(frozen=True, slots=True)
class ReaderDevConfig:
    """Development data: the weights with the lowest mean loss on these packs are kept."""

    packs: tuple[str, ...] = ()
    """Folders that `jpr pack` wrote; without any, the last weights are kept."""
    limit: int = 0
    """Maximum number of questions per pack (evenly spaced); 0 takes all."""
    batch: int = 32
    """Questions per batch."""

    def __post_init__(self) -> None:
        reject(_same_names(self.packs) + below(self, 1, "batch") + below(self, 0, "limit"))


@dataclass(frozen=True, slots=True)
class ReaderTraining:
    """The recipe of a reader."""

    loop: LoopConfig
    reader: ReaderConfig
    data: tuple[DataConfig, ...]
    dev: ReaderDevConfig = field(default_factory=ReaderDevConfig)
    k: int = 10
    """Passages read per question: those with the highest scores (−inf: never) if the pack has
    scores, else the first."""
    batch: int = 64
    """Questions per step, over all processes."""

    def __post_init__(self) -> None:
        found = below(self, 1, "k", "batch") + _no_data(self.data)
        if any(data.scorer for data in self.data):
            found.append("data.scorer is for rerankers; remove it")
        reject(found)


def _same_names(packs: Sequence[str]) -> list[str]:
    if len({Path(pack).name for pack in packs}) < len(packs):
        return ["packs have the same name twice; the log needs distinct names"]
    return []


def _no_data(data: Sequence[DataConfig]) -> list[str]:
    return [] if data else ["there is no [[data]]; name a pack to train on"]


def read_recipe(path: Path, changes: Sequence[str] = ()) -> JointTraining | ReaderTraining:
    """Read a recipe, with changes such as `loop.steps=100`: a reader's if it has `[reader]`."""
    given = read_tables(path, changes)
    if "reader" in given:
        return parse_table(ReaderTraining, given, str(path))
    return parse_table(JointTraining, given, str(path))


_RENAMED = {
    '"normalise": "each"': '"normalize": "mean"',
    '"normalise":': '"normalize":',
    '"numbers":': '"index_tokens":',
    '"numbers_anew":': '"reset_index_tokens":',
    '"strangers":': '"random_negatives":',
    '"longest":': '"max_answer_tokens":',
    '"clip":': '"max_grad_norm":',
    '"average":': '"ema_decay":',
    '"micros":': '"micro_batches":',
    '"patience":': '"early_stopping":',
}


def upgrade_settings(text: str) -> str:
    """Return the text of a `recipe.json` of version 0.1 with today's names, to resume its run."""
    for old, new in _RENAMED.items():
        text = text.replace(old, new)
    return text
