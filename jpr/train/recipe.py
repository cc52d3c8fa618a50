"""Recipes: how a joint reranker is trained, in TOML; all that is wrong with one is told at once."""

import copy
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from jpr.errors import ConfigError
from jpr.models.joint import MEMORIES
from jpr.models.joint_folder import HEADS
from jpr.rerank.joint import DECODERS
from jpr.rerank.prompt import STYLES
from jpr.train.loop import LoopConfig
from jpr.train.objectives import NORMALISATIONS

KINDS = ("joint", "independent", "pointwise")
PREFIXES = ("dynamic", "no-negatives", "teacher-forcing")
TARGETS = ("oracle", "uncovered")
SELECTIONS = ("all", "multi")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What is trained: a joint model that was trained before, or a new one over an encoder."""

    init: str = ""
    """Folder of a joint model to go on with; the rest, dropout apart, is then its own. One that
    points, over a T5, goes on with an index head where that is asked for."""
    weights: str = ""
    """Hugging Face folder of an encoder (bert) or a T5 to begin with."""
    encoder: str = "bert"
    head: str = "pointer"
    layers: int = 2
    """bert: how many fresh layers the decoder has."""
    memory: str = "passages"
    """bert: what the decoder attends to."""
    dropout: float = 0.1
    prior: bool = True
    """pointer: whether to learn how much the first stage's rank counts; not where the first stage
    was trained on the same questions, whose ranks are then better than those of others."""
    checkpointing: bool = False
    """Compute the encoder's blocks twice instead of keeping what is in them: less memory."""
    numbers: int = 100
    """index: how many candidates can have a number of their own."""
    answers: bool = True
    """Whether it reads answers off candidates, to choose passages by what they add; a model to go
    on with learns it where it does not."""
    max_tokens: int = 256
    """Tokens of question and candidate together; the paper has 360."""

    def problems(self) -> list[str]:
        """Return what is wrong, each in a sentence."""
        found = _unlike(self, encoder=STYLES, head=HEADS, memory=MEMORIES)
        if bool(self.init) == bool(self.weights):
            found.append("weights, to begin anew, or init, to go on with a model: give one of them")
        if self.encoder == "bert" and self.head == "index":
            found.append("head = 'index' needs the words of a T5; set encoder = 't5'")
        if not 0 <= self.dropout < 1:
            found.append(f"dropout = {self.dropout}; give a number from 0 to below 1")
        return found + _below(self, 1, "layers", "numbers", "max_tokens")


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """A pack to train on."""

    pack: str
    sources: tuple[str, ...] = ()
    """Take only the questions of these files, which its `pack.json` names."""
    weight: float = 1.0
    """Its share of every batch, against the other packs'."""
    scores: str = ""
    """File (.npy) of IndepPR's scores of its candidates, by which negatives are drawn."""
    scorer: str = ""
    """Or the folder of such a model, which scores them when training begins."""
    teacher: str = ""
    """File (.npy) of scores of its candidates, whose distribution is to be learnt too."""

    def problems(self) -> list[str]:
        """Return what is wrong, each in a sentence."""
        found = [] if self.weight > 0 else [f"weight = {self.weight}; give more than 0"]
        if self.scores and self.scorer:
            found.append("scores and scorer: give one of them")
        return found


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
    teacher_weight: float = 0.0
    """The share of the teacher's distribution in the loss."""
    answer_weight: float = 0.5
    """Where a model reads answers: how much these count beside passages, whatever the kind."""

    def problems(self) -> list[str]:
        """Return what is wrong, each in a sentence."""
        allowed = {"targets": TARGETS, "normalise": NORMALISATIONS}
        found = _unlike(self, kind=KINDS, prefix=PREFIXES, **allowed)
        if not 0 <= self.teacher_weight <= 1:
            found.append(f"teacher_weight = {self.teacher_weight}; give a number from 0 to 1")
        if not 0 <= self.gamma < math.inf:
            found.append(f"gamma = {self.gamma}; give a number from 0")
        return found + _below(self, 0, "answer_weight")


@dataclass(frozen=True, slots=True)
class DevConfig:
    """What decides which weights are kept: MRecall@k, on average over packs."""

    packs: tuple[str, ...] = ()
    limit: int = 0
    """Look at so many questions of each pack only; 0 looks at all."""
    decoder: str = "seq"
    """How passages are chosen jointly, by which a joint objective is judged."""
    beta: float = 2.0
    """tree, sets: the length penalty."""
    select: str = "all"
    """Whether `all` questions decide, or the `multi` ones, with several answers."""
    batch: int = 32

    def problems(self) -> list[str]:
        """Return what is wrong, each in a sentence."""
        found = _unlike(self, decoder=DECODERS, select=SELECTIONS)
        if len({Path(pack).name for pack in self.packs}) < len(self.packs):
            found.append("packs have the same name twice, which the log could not tell apart")
        return found + _below(self, 1, "batch") + _below(self, 0, "limit")


@dataclass(frozen=True, slots=True)
class JointTraining:
    """A recipe."""

    loop: LoopConfig
    model: ModelConfig
    data: tuple[FeedConfig, ...]
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    dev: DevConfig = field(default_factory=DevConfig)
    k: int = 5
    """How many passages are to be chosen."""
    batch: int = 64
    """Questions per step, of all processes together."""
    candidates: int = 25
    """Candidates per question in training; 0 takes all. The paper has |B|/4."""

    def problems(self) -> list[str]:
        """Return what is wrong, each in a sentence."""
        found = _below(self, 1, "k", "batch") + _below(self, 0, "candidates")
        if 0 < self.candidates <= self.k:
            found.append(f"candidates = {self.candidates}; give more than k = {self.k}")
        if not self.data:
            found.append("there is no [[data]]; name a pack to train on")
        if self.objective.teacher_weight and not all(feed.teacher for feed in self.data):
            found.append("objective.teacher_weight needs a teacher file for every pack")
        return found


def read_recipe(path: Path, changes: Sequence[str] = ()) -> JointTraining:
    """Read a recipe; `changes` are settings to change in it, such as `loop.steps=100`."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ConfigError(f"{path}: is no TOML: {error}") from error
    return parse_recipe(with_changes(given, changes), str(path))


def parse_recipe(given: Mapping[str, object], where: str) -> JointTraining:
    """Make a recipe of what a file says, or tell all that is wrong with it."""
    problems: list[str] = []
    made = _made(JointTraining, given, "", problems)
    if problems or made is None:
        raise ConfigError(f"{where}: " + "; ".join(problems))
    return made


def with_changes(given: Mapping[str, object], changes: Sequence[str]) -> dict[str, object]:
    """Return the same settings but for those named, each as `table.key=value`."""
    changed: dict[str, object] = copy.deepcopy(dict(given))
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign:
            raise ConfigError(f"--set {change}: write it as key=value, such as loop.steps=100")
        *tables, name = key.strip().split(".")
        _table(changed, tables, key)[name] = _parsed(text)
    return changed


def _table(given: dict[str, Any], tables: Sequence[str], key: str) -> dict[str, Any]:
    """Return the table that a key stands in; of a list of tables, its only one."""
    for table in tables:
        inner = given.setdefault(table, {})
        if isinstance(inner, list) and len(inner) == 1:
            inner = inner[0]
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {key}: {table} is no single table; change the recipe")
        given = inner
    return given


def _parsed(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string


def _made(kind: type[T], given: object, where: str, problems: list[str]) -> T | None:
    """Make a dataclass of a table; what is wrong is added to `problems`, and None comes back."""
    if not isinstance(given, Mapping):
        problems.append(f"{where.rstrip('.')} must be a table")
        return None
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name in given.keys() - known.keys():
        close = get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        problems.append(f"unknown key {where}{name}; {hint}")
    hints, values, before = get_type_hints(kind), {}, len(problems)
    for name, one in known.items():
        if name in given:
            values[name] = _value(hints[name], given[name], f"{where}{name}", problems)
        elif one.default is MISSING and one.default_factory is MISSING:
            problems.append(f"{where}{name} is missing")
    if len(problems) > before:
        return None
    made = kind(**values)
    problems += [f"{where}{problem}" for problem in _problems_of(made)]
    return made


def _problems_of(made: Any) -> list[str]:  # noqa: ANN401  # one of the dataclasses above
    found: list[str] = made.problems()
    return found


def _value(kind: Any, given: object, where: str, problems: list[str]) -> object:  # noqa: ANN401
    """Return a value as a field of this kind takes it."""
    if is_dataclass(kind):
        return _made(kind, given, f"{where}.", problems)  # type: ignore[arg-type]  # a class
    if get_origin(kind) is tuple:
        if not isinstance(given, list):
            problems.append(f"{where} must be a list")
            return ()
        inner = get_args(kind)[0]
        return tuple(_value(inner, one, where, problems) for one in given)
    if kind is float and type(given) is int:
        return float(given)
    if type(given) is not kind:
        problems.append(f"{where} = {given!r}; give a {_NAMES[kind]}")
    return given


_NAMES: Mapping[type, str] = {int: "whole number", float: "number", str: "string", bool: "boolean"}


def _unlike(config: object, **allowed: Sequence[str]) -> list[str]:
    """Tell which settings are none of those that are allowed."""
    return [
        f"{name} = {value!r}; choose of {', '.join(choices)}"
        for name, choices in allowed.items()
        if (value := getattr(config, name)) not in choices
    ]


def _below(config: object, least: int, *names: str) -> list[str]:
    """Tell which settings are too small."""
    return [
        f"{name} = {value}; give at least {least}"
        for name in names
        if (value := getattr(config, name)) < least
    ]
