"""Encoders in folders: jpr's own in ONNX, or Hugging Face's, with one tower or two.

FOLDER/encoder.json       settings, and checksums of the files beside it; a Hugging Face folder has
                          none, its settings are derived
FOLDER/tokenizer.json     or vocab.txt
FOLDER/model.onnx         and / or config.json with model.safetensors
FOLDER/question/…         two towers: the weights of each in a folder of its own,
FOLDER/passage/…          settings and tokenizer above them or in `passage`
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from jpr.encode.encoder import TextEncoder, TextTower
from jpr.encode.encoder_settings import ABOUT, EncoderSettings, read_settings, write_settings
from jpr.encode.tokenizer import EncoderTokenizer, open_tokenizer
from jpr.errors import ConfigError, FormatError, MissingExtraError, needs_extra
from jpr.io.atomic import publish_binary
from jpr.io.checksums import checked_sums, sha256
from jpr.types import Passage

BUNDLED_ENCODER = Path(__file__).parent.parent / "assets" / "encoder"
DEVICES = ("auto", "cpu", "cuda")
_GPU_FILES = ("nvidia*", "nvhost*", "dxg", "kfd")
"""What drivers create in /dev: Nvidia's on servers and on Jetson, Windows' under WSL, AMD's."""


def load_encoder(
    folder: str | Path | None = None, device: str = "auto", threads: int = 0
) -> TextEncoder:
    """Open an encoder; without a folder, the bundled one.

    On the CPU an ONNX model is preferred to other weights; `auto` uses a GPU if torch sees one and
    there are weights for it. `threads` is for ONNX; 0 is one per core.
    """
    if device not in DEVICES:
        raise ConfigError(f"device {device!r}: choose one of {', '.join(DEVICES)}")
    home = BUNDLED_ENCODER if folder is None else Path(folder)
    if not home.is_dir():
        missing = "no bundled encoder in this installation; name one with --encoder"
        unknown = "not a folder; an encoder is a folder with weights and a tokenizer"
        raise FormatError(home, 0, missing if folder is None else unknown)
    settings, sums = read_settings(home), checked_sums(home / ABOUT)
    parts = [home / "question", home / "passage"] if settings.towers == "separate" else [home]
    tokenizer, file = open_tokenizer(home)
    opened = [_open_tower(part, settings, device, threads) for part in parts]
    towers, used = [tower for tower, _ in opened], [path for _, paths in opened for path in paths]
    if towers[0].dimension != towers[-1].dimension:
        sizes = " and ".join(str(tower.dimension) for tower in towers)
        raise FormatError(home, 0, f"the two towers have {sizes} dimensions; they must agree")
    # A copy in other precision has the original's weights in its settings, and so its key.
    weights = settings.weights or weights_digest(used, sums)
    plain = json.dumps(asdict(replace(settings, weights="")), sort_keys=True)
    key = hashlib.sha256(f"{plain}{tokenizer.to_str()}{weights}".encode()).hexdigest()[:32]
    texts = EncoderTokenizer(tokenizer, settings, file)
    named = None if folder is None else home.resolve()
    return TextEncoder(texts, towers[0], towers[-1], key, named)


def _open_tower(
    folder: Path, settings: EncoderSettings, device: str, threads: int
) -> tuple[TextTower, list[Path]]:
    """Open a tower where it runs fastest, and return it with the files of its weights."""
    graph, weights = folder / "model.onnx", weight_files(folder)
    if not weights and not graph.exists():
        raise FormatError(folder, 0, "no weights: neither model.onnx nor model.safetensors")
    on_gpu = uses_gpu(device)
    if graph.exists() and not on_gpu:
        from jpr.encode.onnx_session import OnnxTower

        return OnnxTower(graph, threads), [graph]
    if not torch_can_load(bool(weights)):
        raise MissingExtraError(f"{folder}: an encoder in torch", "train")
    from jpr.encode.torch_tower import TorchTower, load_tower

    tower = TorchTower(load_tower(folder, settings), "cuda" if on_gpu else "cpu")
    return tower, weights or [graph]


def torch_can_load(weights: bool) -> bool:
    """Return whether torch is installed, with what reads weights or else ONNX files."""
    needed = ("torch", "safetensors") if weights else ("torch", "safetensors", "onnx")
    return all(find_spec(name) for name in needed)


def weight_files(folder: Path) -> list[Path]:
    """Return the files with weights for torch: one, or several shards."""
    return sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def uses_gpu(device: str) -> bool:
    """Return whether a model runs on a GPU: on request, or with `auto` where there is one."""
    if device != "auto" or not find_spec("torch"):
        return device == "cuda"
    if sys.platform == "linux" and not any(any(Path("/dev").glob(name)) for name in _GPU_FILES):
        return False  # torch takes seconds to import: not where no driver has left a trace
    import torch

    return torch.cuda.is_available()


def weights_digest(files: list[Path], known: Mapping[Path, str] = MappingProxyType({})) -> str:
    """Hash the content of weight files, some of whose checksums may be known."""
    hashes = [known.get(file) or sha256(file) for file in files]
    return hashlib.sha256(bytes.fromhex("".join(hashes))).hexdigest()[:32]


def export_encoder(
    source: Path,
    target: Path,
    passages: Sequence[Passage] = (),
    questions: Sequence[str] = (),
    settings: EncoderSettings | None = None,
) -> None:
    """Write a folder of torch weights as one for ONNX Runtime.

    A few hundred typical passages and questions calibrate a model in 8 bits; without them it is in
    32 bits. `settings` replace those of the source.
    """
    with needs_extra("exporting an encoder", "train"):
        from jpr.encode.torch_tower import load_tower
        from jpr.models.onnx_export import tower_to_onnx
    settings = settings or read_settings(source)
    sums = checked_sums(source / ABOUT)
    tokenizer, file = open_tokenizer(source)
    texts = EncoderTokenizer(tokenizer, settings, file)
    question_ids = texts.tokenize_questions(questions)
    passage_ids = texts.tokenize_passages(passages)
    samples = {"": [*passage_ids, *question_ids]}
    if settings.towers == "separate":
        samples = {"question": question_ids, "passage": passage_ids}
    for name, sample in samples.items():
        tower = load_tower(source / name, settings)
        _write(target / name / "model.onnx", tower_to_onnx(tower, sample or None))
    weights = [file for name in samples for file in weight_files(source / name)]
    named = replace(settings, weights=settings.weights or weights_digest(weights, sums))
    _write(target / "tokenizer.json", tokenizer.to_str().encode())
    written = [Path(name, "model.onnx").as_posix() for name in samples]
    write_settings(named, target, [*written, "tokenizer.json"])


def _write(path: Path, content: bytes) -> None:
    with publish_binary(path) as stream:
        stream.write(content)
