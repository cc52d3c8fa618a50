"""Find BM25's first passages for the training questions of `recipes/encoder.py`.

Needs: a lexical index of the Wikipedia passages, in the order of their file (`jpr index
passages.tsv.xz --encoder none --out wiki-bm25`), QUESTIONS with the sets of questions over them,
and DOMAINS with the files that `recipes/domains.py` describes. Ten minutes on two cores.

    python -m recipes.lexical_candidates wiki-bm25 QUESTIONS DOMAINS --out bm25.npz

Writes for each set an array (questions, 50) of rows, -1 where fewer are found. Rows of a domain
count from its own first passage.
"""

from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from jpr import build_index, read_passages
from jpr.io.atomic import publish_path
from jpr.retrieve.index import Index
from recipes.command_line import parser_of
from recipes.encoder_data import DOMAINS, WIKI_TRAIN, question_file, read_questions

DEPTH = 50
INDEXES: dict[str, Index] = {}
"""The open index, for the processes that search it."""


def find(text: str) -> list[int]:
    """Return the rows of the first passages, filled up with -1."""
    rows = [row for row, _ in INDEXES["open"].search_bm25(text, DEPTH)]
    return rows + [-1] * (DEPTH - len(rows))


def candidates(folder: Path, files: dict[str, Path]) -> Iterator[tuple[str, np.ndarray]]:
    """Search an index for the questions of several files."""
    INDEXES["open"] = Index(folder)
    with get_context("fork").Pool() as pool:
        for name, file in files.items():
            texts = [asked.text for asked in read_questions(file)]
            found = pool.map(find, texts, chunksize=256)
            print(name, len(found), flush=True)
            yield name, np.array(found, dtype=np.int32)


def main() -> None:
    """Search Wikipedia, then every domain."""
    parser = parser_of(__doc__, "wiki", "questions", "domains")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = {name: question_file(options.questions, name) for name in WIKI_TRAIN}
    found = dict(candidates(options.wiki, sets))
    for domain in DOMAINS:
        passages = options.domains / f"{domain}.passages.jsonl.xz"
        files = {
            name: file
            for name in (domain, f"{domain}_parts")
            if (file := question_file(options.domains, f"{name}.train")).exists()
        }
        with TemporaryDirectory() as folder:
            build_index(read_passages(passages), Path(folder), source=domain, encoder=None)
            found |= dict(candidates(Path(folder), files))
    with publish_path(options.out) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **found)


if __name__ == "__main__":
    main()
