"""Retrievers over an index: lexical, dense and hybrid; and the one call that opens any of them.

They search rows and scores; only the passages that are returned are read from the store.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from jpr.errors import ConfigError
from jpr.retrieve.engines import ENGINES, FILES, engine_of
from jpr.retrieve.filters import Filter, clauses
from jpr.retrieve.index import Index
from jpr.retrieve.index_manifest import DenseManifest
from jpr.retrieve.question_parts import question_parts
from jpr.retrieve.rank_fusion import Fusion, Scored, ScoreMix, strongest
from jpr.stages import Encoder, Retriever, batched
from jpr.types import Hit, Question, Ranking

KINDS = ("bm25", "dense", "hybrid")
HYBRID = ScoreMix((0.3, 0.7))
"""Weights of lexical and dense scores, chosen on development data (`docs/lab.md`)."""
DEPTH = 300
"""Passages of each ranking that are fused, at least."""
BATCH = 64
"""Questions encoded and searched together."""


class KeyedRetriever(Retriever, Protocol):
    """A retriever with a key for everything that its rankings depend on."""

    @property
    def key(self) -> str:
        """Identifies corpus, encoder, settings and filters: same key, same rankings."""


class Bm25Retriever(Retriever):
    """The passages of largest BM25 score."""

    def __init__(self, index: Index, where: Filter | None = None) -> None:
        """Search `index`, restricted to what `where` accepts."""
        self._index, self._where = index, where
        self.key = f"bm25 {index.key} {_filter_key(index, where)}"

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return the k best passages for each question; fewer if fewer share a term with it."""
        for question in questions:
            hits = self._index.search_bm25(question.text, k, self._where)
            yield _ranking(self._index, question, hits)


class DenseRetriever(Retriever):
    """The passages whose vectors have the largest inner product with the question's."""

    def __init__(self, index: Index, encoder: Encoder, where: Filter | None = None) -> None:
        """Search `index`, whose vectors `encoder` made, restricted to what `where` accepts."""
        if (key := _dense_manifest(index).key) != encoder.key:
            raise ConfigError(
                f"the index has vectors of encoder {key}, not of {encoder.key}; use the encoder "
                "that it was built with, or build it again"
            )
        self._index, self._encoder, self._where = index, encoder, where
        self.key = f"dense {index.key} {encoder.key} {_filter_key(index, where)}"

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return the k best passages for each question, in their order, in batches."""
        for question, hits in self._search(questions, k):
            yield _ranking(self._index, question, hits)

    def _search(self, questions: Iterable[Question], k: int) -> Iterator[tuple[Question, Scored]]:
        for batch in batched(questions, BATCH):
            vectors = self._encoder.encode_questions([question.text for question in batch])
            found = self._index.search_dense(vectors, k, self._where)
            yield from zip(batch, found, strict=True)


class HybridRetriever(DenseRetriever):
    """Lexical and dense search, each of at least `depth` passages, fused.

    A question of several parts is searched for as a whole and by its parts; the largest of a
    passage's scores counts.
    """

    def __init__(
        self,
        index: Index,
        encoder: Encoder,
        where: Filter | None = None,
        *,
        fusion: Fusion = HYBRID,
        depth: int = DEPTH,
    ) -> None:
        """Search `index`, whose vectors `encoder` made; `fusion` is of (lexical, dense)."""
        super().__init__(index, encoder, where)
        if len(fusion.weights) != 2:
            raise ConfigError(f"{fusion}: needs two weights, lexical and dense")
        self._fusion, self._depth = fusion, depth
        settings = f"{fusion} {depth} {_filter_key(index, where)}"
        self.key = f"hybrid with parts {index.key} {encoder.key} {settings}"

    def _search(self, questions: Iterable[Question], k: int) -> Iterator[tuple[Question, Scored]]:
        for batch in batched(questions, BATCH):
            texts = [[question.text, *question_parts(question.text)] for question in batch]
            fused = self._fused([Question("", text) for text in chain.from_iterable(texts)], k)
            for question, asked in zip(batch, texts, strict=True):
                yield question, strongest(list(islice(fused, len(asked))))[:k]

    def _fused(self, texts: Iterable[Question], k: int) -> Iterator[Scored]:
        depth = max(k, self._depth)
        for text, dense in super()._search(texts, depth):
            lexical = self._index.search_bm25(text.text, depth, self._where)
            yield self._fusion([lexical, dense])


def open_retriever(
    folder: str | Path,
    kind: str | None = None,
    *,
    encoder: Encoder | None = None,
    where: Filter | None = None,
    threads: int = 0,
) -> KeyedRetriever:
    """Open what `jpr index` made; without a `kind`, hybrid if it has vectors, else BM25.

    Without an encoder, that of the index is loaded, to run on `threads` threads; 0 is one per core.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"retriever {kind!r}: choose one of {', '.join(KINDS)}")
    home = Path(folder)
    engine = ENGINES[engine_of(home) or FILES]
    return engine.load().open_retriever(home, kind, encoder, where, threads)


def encoder_of(index: Index, threads: int = 0) -> Encoder:
    """Load the encoder that an index was built with."""
    from jpr.encode.encoder_folder import load_encoder  # heavy: not for BM25

    return load_encoder(_dense_manifest(index).encoder or None, threads=threads)


def _dense_manifest(index: Index) -> DenseManifest:
    if index.manifest.vectors is None:
        raise ConfigError("the index has no vectors; build it with an encoder, or use bm25")
    return index.manifest.vectors


def _filter_key(index: Index, where: Filter | None) -> str:
    return repr(clauses(where, index.manifest.fields)) if where else ""


def _ranking(index: Index, question: Question, hits: Scored) -> Ranking:
    return Ranking(question, tuple(Hit(index.store[row], score) for row, score in hits))


def hits_json(ranking: Ranking) -> list[Mapping[str, object]]:
    """Return the passages of a ranking as JSON objects."""
    return [
        {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
        for h in ranking.hits
    ]
