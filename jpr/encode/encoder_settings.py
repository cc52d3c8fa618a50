"""What has to be known of an encoder besides its weights, from its folder.

Our own folders say it in `encoder.json`. Of a Hugging Face folder it is derived from what stands
there: sentence-transformers' modules, pooling and prompts, or the kind of model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from jpr.errors import ConfigError, FormatError
from jpr.io.checksums import read_record, with_sums
from jpr.io.json_files import read_json, read_object, write_json

ABOUT = "encoder.json"
_CHOICES = {
    "pooling": ("mean", "cls", "pooler"),
    "projection": ("none", "linear", "tanh", "norm"),
    "towers": ("shared", "separate"),
}


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How texts are read and how a vector is made of what the model says of their tokens."""

    pooling: str = "mean"
    """What stands for a text: the mean of its tokens, `cls` the first, or `pooler`: the first
    through BERT's own layer with tanh, as in REALM."""
    projection: str = "none"
    """A linear layer after pooling, and what follows it: nothing, `tanh`, or a `norm` (REALM)."""
    normalise: bool = True
    """Whether vectors are made of unit length, so that the inner product is the cosine."""
    towers: str = "shared"
    """Whether questions and passages share their weights."""
    question_prompt: str = ""
    """What stands before every question, such as e5's "query: "."""
    passage_prompt: str = ""
    """What stands before every passage."""
    title_joint: str = "."
    """What stands between a title and the text; [SEP] for DPR and REALM."""
    max_title_tokens: int = 32
    max_question_tokens: int = 64
    """Tokens of a question, special ones included."""
    max_passage_tokens: int = 256
    """Tokens of a passage, special ones included."""
    weights: str = ""
    """In a copy of lower precision, the name of the weights it was made from: vectors of both can
    be compared."""

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} {getattr(self, name)!r}; choose of {', '.join(known)}")
        for name in ("max_title_tokens", "max_question_tokens", "max_passage_tokens"):
            if getattr(self, name) < 3:
                raise ConfigError(f"{name} {getattr(self, name)}; [CLS], a word and [SEP] are 3")


def write_settings(settings: EncoderSettings, folder: Path, names: Iterable[str]) -> None:
    """Write a folder's settings, with the hashes of these of its files."""
    write_json(folder / ABOUT, with_sums(asdict(settings), folder, names))


def read_settings(folder: Path) -> EncoderSettings:
    """Read a folder's settings, or derive them from a Hugging Face folder."""
    own = folder / ABOUT
    if own.exists():
        return _checked(own, read_record(own))
    tower = folder / "passage"
    if tower.is_dir():
        return _checked(tower, {**_derived(tower), "towers": "separate"})
    return _checked(folder, _derived(folder))


def _checked(where: Path, given: Mapping[str, object]) -> EncoderSettings:
    known = {field.name: type(field.default) for field in fields(EncoderSettings)}
    for name, value in given.items():
        if name not in known:
            raise FormatError(where, 0, f"unknown setting {name!r}; there are {', '.join(known)}")
        if type(value) is not known[name]:
            wanted = {str: "a string", bool: "true or false", int: "a whole number"}[known[name]]
            raise FormatError(where, 0, f"{name} is {value!r}, it should be {wanted}")
    try:
        return EncoderSettings(**given)  # type: ignore[arg-type]  # just checked
    except ConfigError as error:
        raise FormatError(where, 0, str(error)) from error


def _derived(folder: Path) -> dict[str, object]:
    """Say what a Hugging Face folder lets us know."""
    config = read_object(folder / "config.json")
    kind = config.get("model_type", "bert")
    if kind not in ("bert", "mpnet", "dpr"):
        raise FormatError(
            folder / "config.json",
            0,
            f"model_type {kind!r} is not known; there are bert, mpnet, dpr",
        )
    if kind == "dpr":
        return {"pooling": "cls", "normalise": False, "title_joint": "[SEP]"}
    found = _of_modules(folder) | _of_prompts(folder)
    limit = _longest(folder, config)
    return {**found, "max_passage_tokens": limit, "max_question_tokens": min(64, limit)}


def _longest(folder: Path, config: Mapping[str, object]) -> int:
    """Return how many tokens a passage may have, 256 where more would be possible."""
    said: list[object] = [256, config.get("max_position_embeddings")]
    told = folder / "sentence_bert_config.json"
    if told.exists():
        said.append(read_object(told).get("max_seq_length"))
    return min(number for number in said if isinstance(number, int))


def _of_modules(folder: Path) -> dict[str, object]:
    """Read sentence-transformers' list of what follows the model."""
    file = folder / "modules.json"
    if not file.exists():
        return {}
    found: dict[str, object] = {"normalise": False}
    for module in read_modules(folder):
        kind, path = module
        if kind == "Pooling":
            found["pooling"] = _pooling(folder / path / "config.json")
        elif kind == "Dense":
            found["projection"] = _activation(folder / path / "config.json")
        elif kind == "Normalize":
            found["normalise"] = True
        elif kind not in ("Transformer", "Dropout"):
            raise FormatError(file, 0, f"module {kind!r} is not known; such an encoder is not read")
    return found


def read_modules(folder: Path) -> list[tuple[str, str]]:
    """Return (kind, path) of each module in `modules.json`."""
    file = folder / "modules.json"
    listed = read_json(file)
    if not isinstance(listed, list) or not all(isinstance(module, dict) for module in listed):
        raise FormatError(file, 0, "holds no list of modules; copy it again")
    return [(str(m.get("type", "")).rpartition(".")[2], str(m.get("path", ""))) for m in listed]


def _pooling(file: Path) -> str:
    config = read_object(file)
    modes = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
    short = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    mode = config.get("pooling_mode") or "+".join(short.get(name, name) for name in modes)
    if mode not in ("mean", "cls"):
        raise FormatError(file, 0, f"pooling {mode!r} is not known; there are mean and cls")
    return str(mode)


def _activation(file: Path) -> str:
    name = str(read_object(file).get("activation_function", "")).rpartition(".")[2]
    known = {"Tanh": "tanh", "Identity": "linear"}
    if name not in known:
        raise FormatError(file, 0, f"activation {name!r} is not known; there are Tanh and Identity")
    return known[name]


def _of_prompts(folder: Path) -> dict[str, object]:
    file = folder / "config_sentence_transformers.json"
    prompts = read_object(file).get("prompts") if file.exists() else None
    if not isinstance(prompts, dict):
        return {}
    passage = prompts.get("passage") or prompts.get("document") or ""
    return {"question_prompt": prompts.get("query") or "", "passage_prompt": passage}
