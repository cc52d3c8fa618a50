"""Retrievers over an index: by words, by vectors, by both; and the one call that opens any of them.

Each works on rows and scores; only the passages that are returned are read from the store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from jpr.errors import ConfigError
from jpr.retrieve.engines import ENGINES, FILES, engine_of
from jpr.retrieve.filters import Filter, clauses
from jpr.retrieve.index import Index
from jpr.retrieve.index_manifest import DenseManifest
from jpr.retrieve.rank_fusion import Fusion, Scored, ScoreMix
from jpr.stages import Encoder, Retriever
from jpr.types import Hit, Question, Ranking

KINDS = ("bm25", "dense", "hybrid")
HYBRID = ScoreMix((0.3, 0.7))
"""Of words and of vectors; chosen on development data (`docs/lab.md`)."""
DEPTH = 300
"""How many passages of each ranking are fused, at least."""
BATCH = 64
"""Questions encoded and searched together."""


class KeyedRetriever(Retriever, Protocol):
    """A retriever that can say all that its rankings depend on."""

    @property
    def key(self) -> str:
        """Names corpus, encoder, settings and filters: the same key, the same rankings."""


class Bm25Retriever:
    """The passages that share the most telling words with the question."""

    def __init__(self, index: Index, where: Filter | None = None) -> None:
        """Search `index`, of which `where` may accept a part only."""
        self._index, self._where = index, where
        self.key = f"bm25 {index.key} {_filter_key(index, where)}"

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages for a question; fewer where no more hold a word of it."""
        return _ranking(
            self._index, question, self._index.search_bm25(question.text, k, self._where)
        )

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order."""
        return (self.retrieve(question, k) for question in questions)


class DenseRetriever:
    """The passages whose vectors have the largest inner product with the question's."""

    def __init__(self, index: Index, encoder: Encoder, where: Filter | None = None) -> None:
        """Search `index`, whose vectors `encoder` made; `where` may accept a part only."""
        _check_encoder(index, encoder)
        self._index, self._encoder, self._where = index, encoder, where
        self.key = f"dense {index.key} {encoder.key} {_filter_key(index, where)}"

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages for a question."""
        return next(self.retrieve_many([question], k))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order, some encoded together."""
        for batch in _batches(questions):
            vectors = self._encoder.encode_questions([question.text for question in batch])
            found = self._index.search_dense(vectors, k, self._where)
            for question, hits in zip(batch, found, strict=True):
                yield _ranking(self._index, question, hits)


class HybridRetriever:
    """Words and vectors together: two rankings of at least `depth` rows, fused."""

    def __init__(
        self,
        index: Index,
        encoder: Encoder,
        where: Filter | None = None,
        *,
        fusion: Fusion = HYBRID,
        depth: int = DEPTH,
    ) -> None:
        """Search `index`, whose vectors `encoder` made; `fusion` is of (words, vectors)."""
        _check_encoder(index, encoder)
        if len(fusion.weights) != 2:
            raise ConfigError(f"{fusion}: give two weights, of words and of vectors")
        self._index, self._encoder, self._where = index, encoder, where
        self._fusion, self._depth = fusion, depth
        settings = f"{fusion} {depth} {_filter_key(index, where)}"
        self.key = f"hybrid {index.key} {encoder.key} {settings}"

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages for a question."""
        return next(self.retrieve_many([question], k))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order, some encoded together."""
        depth = max(k, self._depth)
        for batch in _batches(questions):
            vectors = self._encoder.encode_questions([question.text for question in batch])
            by_vector = self._index.search_dense(vectors, depth, self._where)
            for question, near in zip(batch, by_vector, strict=True):
                by_word = self._index.search_bm25(question.text, depth, self._where)
                yield _ranking(self._index, question, self._fusion([by_word, near])[:k])


def open_retriever(
    folder: str | Path,
    kind: str | None = None,
    *,
    encoder: Encoder | None = None,
    where: Filter | None = None,
    threads: int = 0,
) -> KeyedRetriever:
    """Open what `jpr index` made; without a `kind`, hybrid where there are vectors, else BM25.

    The encoder that the vectors were made with is loaded unless another of the same key is given,
    to run on so many `threads`; 0 is one per core.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"retriever {kind}: choose one of {', '.join(KINDS)}")
    home = Path(folder)
    engine = ENGINES[engine_of(home) or FILES]
    return engine.load().open_retriever(home, kind, encoder, where, threads)


def encoder_of(index: Index, threads: int = 0) -> Encoder:
    """Load the encoder that an index was built with."""
    from jpr.encode.encoder_folder import load_encoder  # heavy: not for BM25

    return load_encoder(_vectors(index).encoder or None, threads=threads)


def _vectors(index: Index) -> DenseManifest:
    if index.manifest.vectors is None:
        raise ConfigError("the index has no vectors; build it with an encoder, or use bm25")
    return index.manifest.vectors


def _check_encoder(index: Index, encoder: Encoder) -> None:
    vectors = _vectors(index)
    if vectors.key != encoder.key:
        raise ConfigError(
            f"the index has vectors of encoder {vectors.key}, not of {encoder.key}; give the "
            "encoder that it was built with, or build it again"
        )


def _filter_key(index: Index, where: Filter | None) -> str:
    """Refuse a filter without meaning, and name it."""
    return repr(clauses(where, index.manifest.fields)) if where else ""


def _ranking(index: Index, question: Question, hits: Scored) -> Ranking:
    return Ranking(question, tuple(Hit(index.store[row], score) for row, score in hits))


def _batches(questions: Iterable[Question]) -> Iterator[Sequence[Question]]:
    rest = iter(questions)
    while batch := list(islice(rest, BATCH)):
        yield batch


def hits_json(ranking: Ranking) -> list[Mapping[str, object]]:
    """Return passages that were found as JSON has them."""
    return [
        {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
        for h in ranking.hits
    ]
