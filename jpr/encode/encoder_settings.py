"""Settings of an encoder: from its `encoder.json`, or derived from a Hugging Face folder.

There they follow from sentence-transformers' modules, pooling and prompts, or the model's type.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from jpr.errors import ConfigError, FormatError
from jpr.io.checksums import read_record, with_sums
from jpr.io.json_files import read_json, read_object, write_json
from jpr.io.settings import below, not_one_of, parse_table, reject

ABOUT = "encoder.json"
_PROJECTIONS = {"Tanh": "tanh", "Identity": "linear"}
"""What torch calls the activation of a layer after pooling → the setting."""


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How texts are tokenized and how token states become a vector.

    The names are those of `encoder.json`; an encoder's key is a hash of them all.
    """

    pooling: str = "mean"
    """The vector of a text: the `mean` of its tokens, the first (`cls`), or the first through
    BERT's layer with tanh (`pooler`), as in REALM."""
    projection: str = "none"
    """A linear layer after pooling: `none`, `linear`, with `tanh`, with a layer `norm` (REALM)."""
    normalise: bool = True
    """Scale vectors to unit length, so that the inner product is the cosine."""
    towers: str = "shared"
    """`shared`: one set of weights for questions and passages; `separate`: two."""
    question_prompt: str = ""
    """Text before every question, such as e5's "query: "."""
    passage_prompt: str = ""
    """Text before every passage."""
    title_joint: str = "."
    """Text between title and passage text; [SEP] for DPR and REALM."""
    max_title_tokens: int = 32
    max_question_tokens: int = 64
    """Tokens of a question, special ones included."""
    max_passage_tokens: int = 256
    """Tokens of a passage, special ones included."""
    weights: str = ""
    """In a copy of lower precision: the digest of the original weights. Vectors of both compare."""

    def __post_init__(self) -> None:
        unknown = not_one_of(
            self,
            pooling=("mean", "cls", "pooler"),
            projection=("none", "linear", "tanh", "norm"),
            towers=("shared", "separate"),
        )
        limits = "max_title_tokens", "max_question_tokens", "max_passage_tokens"
        reject(unknown + below(self, 3, *limits))


def write_settings(settings: EncoderSettings, folder: Path, names: Iterable[str]) -> None:
    """Write a folder's settings, with checksums of these files."""
    write_json(folder / ABOUT, with_sums(asdict(settings), folder, names))


def read_settings(folder: Path) -> EncoderSettings:
    """Read a folder's settings, or derive them from a Hugging Face folder."""
    own, tower = folder / ABOUT, folder / "passage"
    if own.exists():
        where, given = own, read_record(own)[0]
    elif tower.is_dir():
        where, given = tower, {**_derived(tower), "towers": "separate"}
    else:
        where, given = folder, _derived(folder)
    try:
        return parse_table(EncoderSettings, given, "settings")
    except ConfigError as error:
        raise FormatError(where, 0, str(error)) from error


def _derived(folder: Path) -> dict[str, object]:
    """Derive settings from a Hugging Face folder."""
    config = read_object(folder / "config.json")
    kind = config.get("model_type", "bert")
    if kind == "dpr":
        return {"pooling": "cls", "normalise": False, "title_joint": "[SEP]"}
    if kind not in ("bert", "mpnet"):
        raise _unknown(folder / "config.json", "model_type", kind, "bert, mpnet, dpr")
    longest = _if_exists(folder / "sentence_bert_config.json").get("max_seq_length")
    limits = 256, config.get("max_position_embeddings"), longest
    limit = min(limit for limit in limits if isinstance(limit, int))
    found: dict[str, object] = {"max_passage_tokens": limit}
    found["max_question_tokens"] = min(64, limit)
    prompts = _if_exists(folder / "config_sentence_transformers.json").get("prompts")
    if isinstance(prompts, dict):
        found["question_prompt"] = prompts.get("query") or ""
        found["passage_prompt"] = prompts.get("passage") or prompts.get("document") or ""
    return {**found, **_from_modules(folder)}


def _if_exists(file: Path) -> dict[str, object]:
    return read_object(file) if file.exists() else {}


def _from_modules(folder: Path) -> dict[str, object]:
    """Read sentence-transformers' list of what follows the model."""
    if not (folder / "modules.json").exists():
        return {}
    found: dict[str, object] = {"normalise": False}
    for kind, path in read_modules(folder):
        config = folder / path / "config.json"
        if kind == "Pooling":
            found["pooling"] = _pooling(config)
        elif kind == "Dense":
            name = str(read_object(config).get("activation_function", "")).rpartition(".")[2]
            if name not in _PROJECTIONS:
                raise _unknown(config, "activation", name, ", ".join(_PROJECTIONS))
            found["projection"] = _PROJECTIONS[name]
        elif kind == "Normalize":
            found["normalise"] = True
        elif kind not in ("Transformer", "Dropout"):
            known = "Transformer, Pooling, Dense, Dropout, Normalize"
            raise _unknown(folder / "modules.json", "module", kind, known)
    return found


def read_modules(folder: Path) -> list[tuple[str, str]]:
    """Return (kind, path) of each module in sentence-transformers' `modules.json`, if any."""
    file = folder / "modules.json"
    modules = read_json(file) if file.exists() else []
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise FormatError(file, 0, "not a list of modules; copy it again")
    return [(str(m.get("type", "")).rpartition(".")[2], str(m.get("path", ""))) for m in modules]


def _pooling(file: Path) -> str:
    config = read_object(file)
    modes = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
    short = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    mode = config.get("pooling_mode") or "+".join(short.get(name, name) for name in modes)
    if mode not in ("mean", "cls"):
        raise _unknown(file, "pooling", mode, "mean, cls")
    return str(mode)


def _unknown(file: Path, what: str, found: object, known: str) -> FormatError:
    return FormatError(file, 0, f"{what} {found!r} is not supported; supported: {known}")
