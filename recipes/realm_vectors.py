"""REALM's published embedder as an encoder folder, for `jpr index --encoder`.

Needs: a Hugging Face folder of a `RealmEmbedder` (google/realm-cc-news-pretrained-embedder,
…-orqa-nq); a few seconds. Then index a corpus with its vectors:

    python -m recipes.realm_vectors EMBEDDER ENCODER
    jpr index CORPUS --out INDEX --encoder ENCODER --split wordpieces:288

The model is a BERT under `realm.`, whose first token goes through BERT's pooler (a layer and tanh),
then through `cls.dense` to 128 dimensions and `cls.LayerNorm`. Scores are inner products of these,
not cosines.
"""

import argparse
import shutil
from pathlib import Path

from jpr.encode.encoder_settings import EncoderSettings, write_settings
from jpr.encode.torch_tower import load_tower
from jpr.errors import FormatError
from jpr.models.checkpoint import read_checkpoint, write_checkpoint

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
    config, weights = read_checkpoint(source)
    if config.get("model_type") != "realm":
        raise FormatError(source / "config.json", 0, "model_type is not realm")
    plain = {name.removeprefix("embedder."): weight for name, weight in weights.items()}
    named = {
        ours + name.removeprefix(theirs): weight
        for name, weight in plain.items()
        for theirs, ours in _NAMES.items()
        if name.startswith(theirs) and not name.endswith("position_ids")
    }
    found = [name for name in _TOKENIZERS if (source / name).exists()]
    if not found:
        raise FormatError(source, 0, "neither tokenizer.json nor vocab.txt in this folder")
    names = write_checkpoint(target, {**config, "model_type": "bert"}, named)
    for name in found:
        shutil.copyfile(source / name, target / name)
    load_tower(target, SETTINGS)  # raises if a weight is missing
    write_settings(SETTINGS, target, [*names, *found])


def main() -> None:
    """Convert one folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("embedder", type=Path)
    parser.add_argument("encoder", type=Path)
    options = parser.parse_args()
    convert_realm(options.embedder, options.encoder)


if __name__ == "__main__":
    main()
