"""Retrievers over an index: lexical, dense and hybrid; and the one call that opens any of them.

They search rows and scores; only the passages that are returned are read from the store. The parts
of a question that asks several things are searched for as well as the whole.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from jpr.errors import ConfigError
from jpr.retrieve.engines import ENGINES, FILES, engine_of
from jpr.retrieve.filters import Filter, clauses
from jpr.retrieve.index import Index
from jpr.retrieve.list_neighbors import with_list_neighbors
from jpr.retrieve.question_mix import QuestionMix
from jpr.retrieve.rank_fusion import Fuse, Scored, strongest
from jpr.stages import Encoder, Retriever, batched
from jpr.types import Hit, Question, Ranking

KINDS = ("bm25", "dense", "hybrid")
DEPTH = 300
"""Passages of each ranking that are fused, at least."""
BATCH = 64
"""Questions encoded and searched together."""
MOST_PARTS = 8
"""A longer question is searched for by its first parts: each costs a search."""
_END = re.compile(r"(?<=[?？؟])\s+")
_WORD = re.compile(r"\w+")


def question_parts(text: str) -> list[str]:
    """Return the sentences of a question of several, without those of a single word.

    >>> question_parts("Who wrote Emma? Who wrote Dracula? Why?")
    ['Who wrote Emma?', 'Who wrote Dracula?']
    >>> question_parts("Who wrote Emma?")
    []
    """
    sentences = [part.strip() for part in _END.split(text)]
    parts = [part for part in sentences if len(_WORD.findall(part)) > 1]
    return list(dict.fromkeys(parts))[:MOST_PARTS] if len(parts) > 1 else []


class KeyedRetriever(Retriever, Protocol):
    """A retriever with a key for everything that its rankings depend on."""

    key: str
    """Identifies corpus, encoder, settings and filters: same key, same rankings."""


class _IndexRetriever(Retriever):
    """Searches an index for each question and its parts."""

    key: str

    def __init__(self, index: Index, where: Filter | None) -> None:
        self._index, self._where = index, where
        self._filter_key = repr(clauses(where, index.manifest.fields)) if where else ""

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return the k best passages for each question, in their order, in batches."""
        for batch in batched(questions, BATCH):
            texts = [[question.text, *question_parts(question.text)] for question in batch]
            found = self._search(list(chain.from_iterable(texts)), k)
            for question, asked in zip(batch, texts, strict=True):
                hits = strongest(list(islice(found, len(asked))))[:k]
                yield Ranking(question, tuple(Hit(self._index.store[row], s) for row, s in hits))

    def with_list_neighbors(self, ranking: Ranking) -> Ranking:
        """Return candidates with the passages in which their lists begin and continue.

        With a filter, which may exclude these, candidates are returned as they are.
        """
        return ranking if self._where else with_list_neighbors(self._index.store, ranking)

    @abstractmethod
    def _search(self, texts: Sequence[str], k: int) -> Iterator[Scored]:
        """Yield at least the k best passages for each text."""


class Bm25Retriever(_IndexRetriever):
    """The passages of largest BM25 score; fewer than k if fewer share a term with the question."""

    def __init__(self, index: Index, where: Filter | None = None) -> None:
        """Search `index`, restricted to what `where` accepts."""
        super().__init__(index, where)
        self.key = f"bm25, parts {index.key} {self._filter_key}"

    def _search(self, texts: Sequence[str], k: int) -> Iterator[Scored]:
        return (self._index.search_bm25(text, k, self._where) for text in texts)


class DenseRetriever(_IndexRetriever):
    """The passages whose vectors have the largest inner product with the question's."""

    def __init__(self, index: Index, encoder: Encoder, where: Filter | None = None) -> None:
        """Search `index`, whose vectors `encoder` made, restricted to what `where` accepts."""
        super().__init__(index, where)
        if (key := index.dense.key) != encoder.key:
            raise ConfigError(
                f"the index has vectors of encoder {key}, not of {encoder.key}; use the encoder "
                "that it was built with, or build it again"
            )
        self._encoder = encoder
        self.key = f"dense, parts {index.key} {encoder.key} {self._filter_key}"

    def _search(self, texts: Sequence[str], k: int) -> Iterator[Scored]:
        vectors = self._encoder.encode_questions(texts)
        return iter(self._index.search_dense(vectors, k, self._where))


class HybridRetriever(DenseRetriever):
    """Lexical and dense search, each of at least `depth` passages, fused."""

    def __init__(
        self,
        index: Index,
        encoder: Encoder,
        where: Filter | None = None,
        *,
        fusion: Fuse | None = None,
        depth: int = DEPTH,
    ) -> None:
        """Search `index`, whose vectors `encoder` made.

        `fusion` is of (lexical, dense), by default with weights for each question.
        """
        super().__init__(index, encoder, where)
        self._fusion, self._depth = fusion or QuestionMix(len(index.store)), depth
        self._fusion([[], []])  # raises its error now if it is not for two rankings
        settings = f"{self._fusion} {depth} {self._filter_key}"
        self.key = f"hybrid, parts {index.key} {encoder.key} {settings}"

    def _search(self, texts: Sequence[str], k: int) -> Iterator[Scored]:
        depth = max(k, self._depth)
        for text, dense in zip(texts, super()._search(texts, depth), strict=True):
            lexical = self._index.search_bm25(text, depth, self._where)
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
    engine = ENGINES[engine_of(home) or FILES].load()
    retriever: KeyedRetriever = engine.open_retriever(home, kind, encoder, where, threads)
    return retriever


def hits_json(ranking: Ranking) -> list[Mapping[str, object]]:
    """Return the passages of a ranking as JSON objects."""
    return [
        {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
        for h in ranking.hits
    ]
