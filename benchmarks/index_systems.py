"""The systems that `benchmarks/index.py` measures, ours and others."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr.encode.vectors import open_vectors
from jpr.formats.corpus import read_passages
from jpr.formats.questions import load_questions
from jpr.types import Passage, Question

K = 100
Vectors = NDArray[np.float32]
Search = Callable[[int], Sequence[int]]
"""From the number of a question to the rows found for it."""


@dataclass(frozen=True)
class Task:
    """What a system is given."""

    passages: str
    questions: str
    vectors: str
    n: int
    work: str

    def corpus(self) -> Iterator[Passage]:
        """Stream the first n passages."""
        return islice(read_passages(self.passages), self.n)

    def texts(self) -> list[str]:
        """Return the questions."""
        return [question.text for question in load_questions(self.questions)]

    def source(self) -> "First":
        """Return the vectors of the first n passages."""
        return First(open_vectors(self.vectors) if self.vectors else Drawn(self.n), self.n)

    def asked(self) -> Vectors:
        """Return the vectors of the questions."""
        found: Vectors = np.load(Path(self.work) / "questions.npy")
        return found

    @property
    def folder(self) -> Path:
        """Where systems write."""
        return Path(self.work) / str(self.n)


@dataclass(frozen=True)
class Drawn:
    """Unit vectors around random centres."""

    n: int
    seed: int = 0
    key: str = "random"
    dimension: int = 384

    def __len__(self) -> int:
        return self.n

    def blocks(self) -> Iterator[Vectors]:
        """Draw a block at a time."""
        centres = np.random.default_rng(99).normal(size=(2000, self.dimension)).astype(np.float32)
        for start in range(0, self.n, 4096):
            chance = np.random.default_rng((self.seed, start))
            size = min(4096, self.n - start)
            noise = chance.normal(size=(size, self.dimension)).astype(np.float32)
            block = centres[chance.integers(len(centres), size=size)] + noise
            yield block / np.linalg.norm(block, axis=1, keepdims=True)


@dataclass(frozen=True)
class First:
    """The first n of more vectors."""

    stored: Any
    n: int

    @property
    def key(self) -> str:
        """The encoder's."""
        return str(self.stored.key)

    @property
    def dimension(self) -> int:
        """Of each vector."""
        return int(self.stored.dimension)

    def __len__(self) -> int:
        return self.n

    def blocks(self) -> Iterator[Vectors]:
        """Yield them in blocks."""
        left = self.n
        for block in self.stored.blocks():
            yield block[:left]
            left -= len(block[:left])
            if not left:
                return


def reading(task: Task, folder: Path) -> None:
    """Read the corpus and nothing else."""
    for _ in task.corpus():
        pass


def build_bm25(task: Task, folder: Path) -> None:
    """Our BM25 only, without the passage store."""
    from jpr.retrieve.bm25 import Bm25Writer

    writer = Bm25Writer(folder)
    for row, passage in enumerate(task.corpus()):
        writer.add(row, passage)
    writer.close()


def open_bm25(task: Task, folder: Path) -> Search:
    """Search our BM25."""
    from jpr.retrieve.bm25 import Bm25Searcher

    index, texts = Bm25Searcher(folder), task.texts()
    return lambda i: [row for row, _ in index.search(texts[i], K)]


def build_hybrid(task: Task, folder: Path) -> None:
    """Our complete index: passages, lexical and dense."""
    from jpr.retrieve.index import build_index

    build_index(task.corpus(), folder, source="corpus", vectors=lambda *_: task.source())


def open_hybrid(task: Task, folder: Path) -> Search:
    """Search lexical and dense, fuse, and read the passages."""
    from jpr.retrieve.index import Index
    from jpr.retrieve.retrievers import HybridRetriever

    index, texts, asked = Index(folder), task.texts(), task.asked()

    number = {text: i for i, text in enumerate(texts)}

    class Encoded:
        key, dimension = task.source().key, task.source().dimension

        def encode_questions(self, texts: Sequence[str]) -> Vectors:
            return asked[[number[text] for text in texts]]

        def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
            raise NotImplementedError

    retriever = HybridRetriever(index, Encoded())

    def search(i: int) -> Sequence[int]:
        retriever.retrieve(Question("", texts[i]), K)
        return []

    return search


def build_dense(exact_up_to: int) -> Callable[[Task, Path], None]:
    """Our dense index, exact or with lists."""

    def build(task: Task, folder: Path) -> None:
        from jpr.retrieve.dense import write_vectors

        made = write_vectors(task.source(), folder, exact_up_to=exact_up_to)
        (folder.parent / f"{folder.name}.json").write_text(json.dumps(asdict(made)))

    return build


def open_dense(task: Task, folder: Path) -> Search:
    """Search our dense index."""
    from jpr.retrieve.dense import DenseSearcher
    from jpr.retrieve.index_manifest import DenseManifest

    manifest = json.loads((folder.parent / f"{folder.name}.json").read_text())
    dense = DenseSearcher(folder, DenseManifest(**manifest), len(task.source()))
    asked = task.asked()
    return lambda i: [row for row, _ in dense.search(asked[i : i + 1], K)[0]]


def build_flat(task: Task, folder: Path) -> None:
    """Index float32 vectors with faiss, nothing else: the exact search."""
    import faiss

    index = faiss.IndexFlatIP(task.source().dimension)
    for block in task.source().blocks():
        index.add(np.ascontiguousarray(block))
    faiss.write_index(index, str(folder / "flat.faiss"))


def open_flat(task: Task, folder: Path) -> Search:
    """Search exactly."""
    import faiss

    index, asked = faiss.read_index(str(folder / "flat.faiss")), task.asked()
    return lambda i: [int(row) for row in index.search(asked[i : i + 1], K)[1][0]]


def build_bm25s(task: Task, folder: Path) -> None:
    """Index with bm25s: Lucene's BM25, Snowball stems, English stop words."""
    import bm25s
    import Stemmer

    texts = [f"{passage.title} {passage.text}" for passage in task.corpus()]
    tokens = bm25s.tokenize(
        texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False
    )
    index = bm25s.BM25(backend="numba")
    index.index(tokens, show_progress=False)
    index.save(str(folder))


def open_bm25s(task: Task, folder: Path) -> Search:
    """Search with bm25s and numba, its files mapped."""
    import bm25s
    import Stemmer

    index = bm25s.BM25.load(str(folder), mmap=True)
    index.backend = "numba"
    stemmer, texts = Stemmer.Stemmer("english"), task.texts()

    def search(i: int) -> Sequence[int]:
        tokens = bm25s.tokenize(texts[i], stopwords="en", stemmer=stemmer, show_progress=False)
        rows, _ = index.retrieve(tokens, k=K, show_progress=False, n_threads=1)
        return [int(row) for row in rows[0]]

    return search


def build_lancedb(task: Task, folder: Path) -> None:
    """Index vectors with LanceDB: IVF-PQ as its documentation sets it up."""
    import lancedb  # type: ignore[import-not-found]  # in an environment of its own

    def rows() -> Iterator[list[dict[str, Any]]]:
        start = 0
        for block in task.source().blocks():
            yield [{"row": start + i, "vector": vector} for i, vector in enumerate(block)]
            start += len(block)

    blocks = rows()
    table = lancedb.connect(folder).create_table("vectors", next(blocks))
    for block in blocks:
        table.add(block)
    table.create_index(metric="dot", vector_column_name="vector")


def open_lancedb(task: Task, folder: Path) -> Search:
    """Search with LanceDB, refining ten times as many as are asked for."""
    import lancedb

    table, asked = lancedb.connect(folder).open_table("vectors"), task.asked()

    def search(i: int) -> Sequence[int]:
        query = table.search(asked[i]).distance_type("dot").nprobes(64).refine_factor(10)
        return [hit["row"] for hit in query.select(["row", "_distance"]).limit(K).to_list()]

    return search


@dataclass(frozen=True)
class System:
    """A system to measure."""

    build: Callable[[Task, Path], None]
    open: Callable[[Task, Path], Search] | None
    of_vectors: bool = False


SYSTEMS = {
    "reading alone": System(reading, None),
    "jpr BM25": System(build_bm25, open_bm25),
    "bm25s + numba": System(build_bm25s, open_bm25s),
    "faiss flat float32": System(build_flat, open_flat, of_vectors=True),
    "jpr SQ8 exact": System(build_dense(10**9), open_dense, of_vectors=True),
    "jpr IVF SQ8": System(build_dense(0), open_dense, of_vectors=True),
    "LanceDB IVF-PQ": System(build_lancedb, open_lancedb, of_vectors=True),
    "jpr index, hybrid": System(build_hybrid, open_hybrid),
}
