"""Recipes: how a joint reranker, or a reader, is trained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jpr.io.settings import below, not_one_of, parse_table, read_tables, reject
from jpr.models.joint import MEMORIES
from jpr.models.joint_checkpoint import HEADS
from jpr.rerank.joint import DECODERS
from jpr.rerank.prompt import STYLES
from jpr.train.loop import LoopConfig
from jpr.train.objectives import NORMALISATIONS

KINDS = ("joint", "independent", "pointwise")
PREFIXES = ("dynamic", "no-negatives", "teacher-forcing")
TARGETS = ("oracle", "uncovered")
SELECTIONS = ("all", "multi")
ORDERS = ("appearance", "shuffled")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What is trained: a joint model that was trained before, or a new one over an encoder."""

    init: str = ""
    """Folder of a joint model to go on with; the rest, dropout and memory apart, is its own."""
    weights: str = ""
    """Hugging Face folder of an encoder (bert) or a T5 to begin with."""
    encoder: str = "bert"
    """`bert`, or `t5`, which brings its own decoder."""
    head: str = "pointer"
    """`pointer`, or `index`, the paper's, which needs a T5."""
    layers: int = 2
    """bert: how many fresh layers the decoder has."""
    memory: str = ""
    """What the decoder attends to: one vector for each of the `passages`, or all their `tokens`;
    by default a BERT's the former, a T5's the latter, a trained model's what it did."""
    dropout: float = 0.1
    """The share of numbers that training forgets at random."""
    prior: bool = True
    """pointer: whether to learn how much the first stage's rank counts; not where the first stage
    was trained on the same questions, whose ranks are then better than those of others."""
    checkpointing: bool = False
    """Compute the encoder's blocks twice instead of keeping what is in them: less memory."""
    numbers: int = 100
    """index: how many candidates can have a number of their own."""
    numbers_anew: bool = True
    """index: begin with new vectors for the numbers. Of a T5's hundred `<extra_id>` tokens its own
    training used some thirty; the others can hardly be told apart."""
    answers: bool = True
    """Whether it reads answers off candidates, to choose passages by what they add; a model to go
    on with learns it where it does not."""
    max_tokens: int = 256
    """Tokens of question and candidate together; the paper has 360."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = not_one_of(self, encoder=STYLES, head=HEADS, memory=("", *MEMORIES))
        if bool(self.init) == bool(self.weights):
            found.append("weights, to begin anew, or init, to go on with a model: give one of them")
        if self.encoder == "bert" and self.head == "index":
            found.append("head = 'index' needs the words of a T5; set encoder = 't5'")
        if not 0 <= self.dropout < 1:
            found.append(f"dropout = {self.dropout}; give a number from 0 to below 1")
        reject(found + below(self, 1, "layers", "numbers", "max_tokens"))


@dataclass(frozen=True, slots=True)
class DataConfig:
    """A pack to train on."""

    pack: str
    """Folder that `jpr pack` made."""
    sources: tuple[str, ...] = ()
    """Take only the questions of these files, which its `pack.json` names."""
    weight: float = 1.0
    """Its share of every batch, against the other packs'."""
    scores: str = ""
    """File (.npy) of IndepPR's scores of its candidates, by which negatives are drawn; of a
    reader, of whichever chooses what it reads."""
    scorer: str = ""
    """Or the folder of such a model, which scores them when training begins."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = [] if self.weight > 0 else [f"weight = {self.weight}; give more than 0"]
        if self.scores and self.scorer:
            found.append("scores and scorer: give one of them")
        reject(found)


@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    """What the model is to learn."""

    kind: str = "joint"
    """`joint` (JPR), `independent` (IndepPR), or `pointwise`, yes or no for each candidate."""
    prefix: str = "dynamic"
    """joint: Õ and negatives, or Õ alone in random order or in that of IndepPR's scores."""
    targets: str = "oracle"
    """joint: Õ without the prefix, as printed, or all that contain an answer it lacks."""
    normalise: str = "each"
    """How targets of a step count: `sum` as printed, `each` on average, or `any` of them."""
    gamma: float = 1.0
    """joint: how much chance there is in the choice of negatives."""
    teacher: str = ""
    """Folder of a trained joint model, which reads texts in the same way: what it makes of a step's
    candidates, and of where in them answers stand, is to be learnt too."""
    teacher_weight: float = 0.0
    """The share of the teacher's distributions in the loss."""
    answer_weight: float = 0.5
    """Where a model reads answers: how much these count beside passages, whatever the kind."""

    def __post_init__(self) -> None:
        """Check the values."""
        allowed = {"targets": TARGETS, "normalise": NORMALISATIONS}
        found = not_one_of(self, kind=KINDS, prefix=PREFIXES, **allowed)
        if not 0 <= self.teacher_weight <= 1:
            found.append(f"teacher_weight = {self.teacher_weight}; give a number from 0 to 1")
        if bool(self.teacher) != bool(self.teacher_weight):
            found.append("teacher and teacher_weight: one is nothing without the other")
        if not 0 <= self.gamma < math.inf:
            found.append(f"gamma = {self.gamma}; give a number from 0")
        reject(found + below(self, 0, "answer_weight"))


@dataclass(frozen=True, slots=True)
class DevConfig:
    """What decides which weights are kept: MRecall@k, on average over packs."""

    packs: tuple[str, ...] = ()
    """Folders that `jpr pack` made; without any, the last weights are kept."""
    limit: int = 0
    """Look at so many questions of each pack only; 0 looks at all."""
    decoder: str = "seq"
    """How passages are chosen jointly, by which a joint objective is judged."""
    beta: float = 2.0
    """tree, sets: the length penalty."""
    select: str = "all"
    """Whether `all` questions decide, or the `multi` ones, with several answers."""
    batch: int = 32
    """Questions looked at together."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = not_one_of(self, decoder=DECODERS, select=SELECTIONS)
        found += _same_names(self.packs)
        reject(found + below(self, 1, "batch") + below(self, 0, "limit"))


def _same_names(packs: Sequence[str]) -> list[str]:
    if len({Path(pack).name for pack in packs}) < len(packs):
        return ["packs have the same name twice, which the log could not tell apart"]
    return []


@dataclass(frozen=True, slots=True)
class JointTraining:
    """A recipe."""

    loop: LoopConfig
    model: ModelConfig
    data: tuple[DataConfig, ...]
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    dev: DevConfig = field(default_factory=DevConfig)
    k: int = 5
    """How many passages are to be chosen."""
    batch: int = 64
    """Questions per step, of all processes together."""
    candidates: int = 25
    """Candidates per question in training; 0 takes all. The paper has |B|/4."""
    strangers: float = 0.0
    """The share of those without an answer that is taken from other questions' candidates."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = below(self, 1, "k", "batch") + below(self, 0, "candidates")
        if not 0 <= self.strangers <= 1:
            found.append(f"strangers = {self.strangers}; give a number from 0 to 1")
        if 0 < self.candidates <= self.k:
            found.append(f"candidates = {self.candidates}; give more than k = {self.k}")
        if not self.data:
            found.append("there is no [[data]]; name a pack to train on")
        reject(found)


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """A T5 that is to write the answers."""

    weights: str
    """Hugging Face folder of a T5 to begin with, or of a reader to go on with."""
    dropout: float = 0.1
    """The share of numbers that training forgets at random."""
    max_tokens: int = 256
    """Tokens of question and passage together."""
    longest: int = 40
    """Tokens of all answers; the paper has 20 where there is one answer, 40 where several."""
    order: str = "appearance"
    """In which order answers are to be written: as passages have them, or `shuffled`."""
    checkpointing: bool = False
    """Compute the encoder's blocks twice instead of keeping what is in them: less memory."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = not_one_of(self, order=ORDERS)
        if not 0 <= self.dropout < 1:
            found.append(f"dropout = {self.dropout}; give a number from 0 to below 1")
        reject(found + below(self, 2, "longest") + below(self, 1, "max_tokens"))


@dataclass(frozen=True, slots=True)
class LossConfig:
    """What decides which weights are kept: the loss on these packs."""

    packs: tuple[str, ...] = ()
    """Folders that `jpr pack` made; without any, the last weights are kept."""
    limit: int = 0
    """Look at so many questions of each pack only; 0 looks at all."""
    batch: int = 32
    """Questions looked at together."""

    def __post_init__(self) -> None:
        """Check the values."""
        reject(_same_names(self.packs) + below(self, 1, "batch") + below(self, 0, "limit"))


@dataclass(frozen=True, slots=True)
class ReaderTraining:
    """A recipe for a reader."""

    loop: LoopConfig
    reader: ReaderConfig
    data: tuple[DataConfig, ...]
    dev: LossConfig = field(default_factory=LossConfig)
    k: int = 10
    """How many passages of each question are read: those with the best scores, where a feed has any
    (−inf: never), else the first."""
    batch: int = 64
    """Questions per step, of all processes together."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = below(self, 1, "k", "batch")
        if not self.data:
            found.append("there is no [[data]]; name a pack to train on")
        if any(feed.scorer for feed in self.data):
            found.append("data.scorer is for rerankers; leave it out")
        reject(found)


def read_recipe(path: Path, changes: Sequence[str] = ()) -> JointTraining:
    """Read the recipe of a reranker; `changes` are settings to change in it."""
    return parse_recipe(read_tables(path, changes), str(path))


def read_any_recipe(path: Path, changes: Sequence[str] = ()) -> JointTraining | ReaderTraining:
    """Read a recipe: a reader's where it has a table of that name."""
    given = read_tables(path, changes)
    if "reader" in given:
        return parse_table(ReaderTraining, given, str(path))
    return parse_recipe(given, str(path))


def parse_recipe(given: Mapping[str, object], where: str) -> JointTraining:
    """Make the recipe of a reranker of what a file says, or tell all that is wrong with it."""
    return parse_table(JointTraining, given, where)
