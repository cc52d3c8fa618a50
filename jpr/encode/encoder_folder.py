"""Encoders in folders: our own in ONNX, or Hugging Face's, in one tower or two.

FOLDER/encoder.json       settings, and the hashes of the files that we wrote beside it; a Hugging
                          Face folder has none: its settings are derived
FOLDER/tokenizer.json     or vocab.txt
FOLDER/model.onnx         and / or config.json with model.safetensors
FOLDER/question/…         two towers: the weights of each in a folder of its own,
FOLDER/passage/…          settings and tokenizer above them or in `passage`
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from jpr.encode.encoder import TextEncoder, Tower
from jpr.encode.encoder_settings import ABOUT, EncoderSettings, read_settings
from jpr.encode.tokenizer import EncoderTokenizer, open_tokenizer
from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.io.checksums import checked_sums, sha256

BUNDLED_ENCODER = Path(__file__).parent.parent / "assets" / "encoder"
"""The encoder that comes with the package."""
DEVICES = ("auto", "cpu", "cuda")
_GPU_FILES = ("nvidia*", "nvhost*", "dxg", "kfd")
"""What drivers put into /dev: Nvidia's on servers and on Jetson, Windows' below WSL, AMD's."""


def load_encoder(
    folder: str | Path | None = None, device: str = "auto", threads: int = 0
) -> TextEncoder:
    """Open an encoder, or the one that comes with the package.

    On the CPU an ONNX model is preferred to other weights; `auto` takes a GPU where there are one,
    torch and weights for it. `threads` is for ONNX; 0 is one per core.
    """
    if device not in DEVICES:
        raise ConfigError(f"--device {device}; choose of {', '.join(DEVICES)}")
    home = BUNDLED_ENCODER if folder is None else Path(folder)
    if not home.is_dir():
        raise FormatError(home, 0, _no_folder(folder))
    settings, sums = read_settings(home), checked_sums(home / ABOUT)
    parts = [home / "question", home / "passage"] if settings.towers == "separate" else [home]
    tokenizer, file = open_tokenizer(_with_tokenizer(home))
    opened = [_open(part, settings, device, threads) for part in parts]
    towers, used = [tower for tower, _ in opened], [path for _, paths in opened for path in paths]
    if towers[0].dimension != towers[-1].dimension:
        sizes = " and ".join(str(tower.dimension) for tower in towers)
        raise FormatError(
            home, 0, f"its towers give vectors of {sizes} dimensions; they must agree"
        )
    tokens, weights = (
        EncoderTokenizer(tokenizer, settings, file),
        settings.weights or weights_digest(used, sums),
    )
    return TextEncoder(tokens, towers[0], towers[-1], _key(settings, tokenizer.to_str(), weights))


def _no_folder(folder: str | Path | None) -> str:
    if folder is None:
        return "this installation has no encoder of its own; name one with --encoder"
    return "is no folder; an encoder is a folder with weights and a tokenizer"


def _with_tokenizer(home: Path) -> Path:
    names = ("tokenizer.json", "vocab.txt")
    tower = home / "passage"
    above = any((home / name).exists() for name in names)
    return home if above or not tower.is_dir() else tower


def _open(
    folder: Path, settings: EncoderSettings, device: str, threads: int
) -> tuple[Tower, list[Path]]:
    """Open one tower where it runs best, and say which files its weights are in."""
    graph, weights = folder / "model.onnx", weight_files(folder)
    if not weights and not graph.exists():
        raise FormatError(folder, 0, "holds no weights: neither model.onnx nor model.safetensors")
    on_gpu = uses_gpu(device)
    if graph.exists() and not on_gpu:
        from jpr.encode.onnx import OnnxTower

        return OnnxTower(graph, threads), [graph]
    if not torch_can_load(bool(weights)):
        raise MissingExtraError(f"{folder}: an encoder in torch", "train")
    from jpr.encode.torch_tower import TorchTower, load_tower

    tower = TorchTower(load_tower(folder, settings), "cuda" if on_gpu else "cpu")
    return tower, weights or [graph]


def torch_can_load(weights: bool) -> bool:
    """Tell whether torch, and what it takes to read weights or else ONNX files, are installed."""
    needed = ("torch", "safetensors") if weights else ("torch", "safetensors", "onnx")
    return all(find_spec(name) for name in needed)


def weight_files(folder: Path) -> list[Path]:
    """Return the files with weights for torch: one, or several shards."""
    return sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def uses_gpu(device: str) -> bool:
    """Tell whether a model is to run on a GPU: where that is said, or where there is one."""
    if device != "auto" or not find_spec("torch") or not _may_have_gpu():
        return device == "cuda"
    import torch

    return torch.cuda.is_available()


def _may_have_gpu() -> bool:
    """Tell whether there may be a GPU, without torch, which takes seconds to load."""
    if sys.platform != "linux":
        return True
    return any(any(Path("/dev").glob(name)) for name in _GPU_FILES)


def _key(settings: EncoderSettings, tokenizer: str, weights: str) -> str:
    """Name settings, tokenizer and weights by what they are.

    A copy of weights in other precision goes by the name of the weights it was made from.
    """
    plain = json.dumps(asdict(replace(settings, weights="")), sort_keys=True)
    return hashlib.sha256(f"{plain}{tokenizer}{weights}".encode()).hexdigest()[:32]


def weights_digest(files: list[Path], known: Mapping[Path, str] = MappingProxyType({})) -> str:
    """Name weights by what is in their files, whose hashes may be known."""
    hashes = [known.get(file) or sha256(file) for file in files]
    return hashlib.sha256(bytes.fromhex("".join(hashes))).hexdigest()[:32]
