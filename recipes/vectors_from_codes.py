"""Turn the 8-bit vectors of `recipes/dpr_plus.py` into a folder for `jpr index --vectors`.

    python -m recipes.vectors_from_codes passages.tsv.xz CODES VECTORS [--encoder FOLDER]

The codes are kept as they are; what is added is what the folder has to know: the encoder's key, the
steps, and a digest of the passages of each chunk.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from jpr import read_passages
from jpr.encode.encoder import Vectors
from jpr.encode.encoder_folder import load_encoder
from jpr.encode.vectors import Chunk, vectors_for
from jpr.io.cluster import Work
from jpr.stages import Encoder
from recipes.command_line import parser_of


def main() -> None:
    """Read the codes chunk by chunk."""
    parser = parser_of(__doc__, "passages", "codes", "vectors")
    parser.add_argument("--encoder", type=Path, help="the default is the embedded one")
    options = parser.parse_args()
    low, high = np.load(options.codes / "range.npy")
    parts = [np.load(path, mmap_mode="r") for path in sorted(options.codes.glob("codes.*.npy"))]
    first = np.cumsum([0, *map(len, parts)])

    def rows(start: int, end: int) -> Vectors:
        pieces = [
            part[max(0, start - at) : max(0, end - at)]
            for part, at in zip(parts, first, strict=False)
        ]
        codes: Vectors = np.concatenate(pieces).astype(np.float32)
        found: Vectors = codes / 255 * (high - low) + low
        return found

    def look_up(
        work: Work, encoder: Encoder, chunks: Iterable[Chunk], batch: int
    ) -> Iterator[tuple[int, Vectors]]:
        at = 0
        for number, passages in chunks:
            yield number, rows(at, at + len(passages))
            at += len(passages)

    made = vectors_for(
        read_passages(options.passages),
        load_encoder(options.encoder),
        options.vectors,
        precision="float16",
        run=look_up,
    )
    print(f"{len(made):,} vectors in {options.vectors}")


if __name__ == "__main__":
    main()
