"""Export of encoders into folders that `load_encoder` opens; needs torch and onnx."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jpr.encode.encoder_folder import tokenizer_folder, weight_files, weights_digest
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
    """Write a folder of torch weights as one for ONNX Runtime.

    A few hundred typical passages and questions calibrate a model in 8 bits; without them it is in
    32 bits. `settings` replace those of the source.
    """
    try:
        from jpr.encode.torch_tower import load_tower
        from jpr.models.onnx_export import tower_to_onnx
    except ImportError as error:
        raise MissingExtraError("exporting an encoder", "train") from error
    settings = settings or read_settings(source)
    sums = checked_sums(source / ABOUT)
    tokenizer, file = open_tokenizer(tokenizer_folder(source))
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
