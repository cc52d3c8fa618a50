"""REALM's published embedder into an encoder that `load_encoder` opens.

What Hugging Face calls `RealmEmbedder` (google/realm-cc-news-pretrained-embedder, …-orqa-nq) is a
BERT under `realm.`, whose first token goes through BERT's pooler (a layer and tanh), then through
`cls.dense` to 128 numbers and `cls.LayerNorm`. Scores are inner products of these, not cosines.
"""

import shutil
from pathlib import Path

from jpr.encode.encoder_settings import EncoderSettings, write_settings
from jpr.errors import FormatError, MissingExtraError

SETTINGS = EncoderSettings(
    pooling="pooler",
    projection="norm",
    normalise=False,
    title_joint="[SEP]",
    max_passage_tokens=288,
)
_NAMES = {
    "realm.": "",
    "cls.dense.": "projection.dense.",
    "cls.LayerNorm.": "projection.LayerNorm.",
}
_TOKENIZERS = ("tokenizer.json", "vocab.txt")


def convert_realm(source: Path, target: Path) -> None:
    """Write a Hugging Face folder of REALM's embedder, or of its scorer, as an encoder."""
    try:
        from jpr.encode.torch_tower import load_tower
        from jpr.models.checkpoint import read_checkpoint, write_checkpoint
    except ImportError as error:
        raise MissingExtraError("converting REALM", "train") from error
    config, weights = read_checkpoint(source)
    if config.get("model_type") != "realm":
        raise FormatError(source / "config.json", 0, "is not that of a REALM embedder")
    plain = {name.removeprefix("embedder."): weight for name, weight in weights.items()}
    named = {
        ours + name.removeprefix(theirs): weight
        for name, weight in plain.items()
        for theirs, ours in _NAMES.items()
        if name.startswith(theirs) and not name.endswith("position_ids")
    }
    found = [name for name in _TOKENIZERS if (source / name).exists()]
    if not found:
        raise FormatError(source, 0, "holds neither tokenizer.json nor vocab.txt")
    names = write_checkpoint(target, {**config, "model_type": "bert"}, named)
    for name in found:
        shutil.copyfile(source / name, target / name)
    load_tower(target, SETTINGS)  # complains of what is missing
    write_settings(SETTINGS, target, [*names, *found])
