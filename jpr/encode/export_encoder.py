"""Encoders into folders that `load_encoder` opens; needs torch and onnx."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jpr.encode.encoder_folder import weight_files, weights_digest
from jpr.encode.encoder_settings import ABOUT, EncoderSettings, read_settings, write_settings
from jpr.encode.tokenizer import EncoderTokenizer, open_tokenizer
from jpr.errors import MissingExtraError
from jpr.io.atomic import publish_binary
from jpr.io.checksums import checked_sums
from jpr.types import Passage


def export_encoder(
    source: Path,
    target: Path,
    passages: Sequence[Passage] = (),
    questions: Sequence[str] = (),
    settings: EncoderSettings | None = None,
) -> None:
    """Write a folder of weights for torch as one for ONNX Runtime.

    With passages and questions (a few hundred, such as are to be encoded) the model is in 8 bits,
    which those show how to scale; without, in 32. `settings` replace those of the source.
    """
    settings = settings or read_settings(source)
    sums = checked_sums(source / ABOUT)
    home = source / "passage" if settings.towers == "separate" else source
    holder = source if (source / "tokenizer.json").exists() else home
    tokenizer, file = open_tokenizer(holder)
    tokens = EncoderTokenizer(tokenizer, settings, file)
    tokenize_questions, tokenize_passages = (
        tokens.tokenize_questions(questions),
        tokens.tokenize_passages(passages),
    )
    samples = {"": [*tokenize_passages, *tokenize_questions]}
    if settings.towers == "separate":
        samples = {"question": tokenize_questions, "passage": tokenize_passages}
    for tower, sample in samples.items():
        _export(source / tower, target / tower, settings, sample)
    used = [file for tower in samples for file in weight_files(source / tower)]
    named = replace(settings, weights=settings.weights or weights_digest(used, sums))
    _write(target / "tokenizer.json", tokenizer.to_str().encode())
    files = [Path(tower, "model.onnx").as_posix() for tower in samples]
    write_settings(named, target, [*files, "tokenizer.json"])


def _export(
    source: Path, target: Path, settings: EncoderSettings, sample: Sequence[Sequence[int]]
) -> None:
    try:
        from jpr.encode.torch_tower import load_tower
        from jpr.models.onnx_export import tower_to_onnx, tower_to_onnx_int8
    except ImportError as error:
        raise MissingExtraError("exporting an encoder", "train") from error
    tower = load_tower(source, settings)
    model = tower_to_onnx_int8(tower, sample) if sample else tower_to_onnx(tower)
    _write(target / "model.onnx", model)


def _write(path: Path, content: bytes) -> None:
    with publish_binary(path) as stream:
        stream.write(content)
