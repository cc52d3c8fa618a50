"""Rerankings of a run, written to a file; a killed run resumes where it stopped.

With trees, a second file holds the search of each question, a JSON line each
(`jpr.formats.replies.tree_line`).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TextIO

from jpr.formats.replies import tree_line
from jpr.formats.runs import write_rankings
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.stages import Progress, Reranker
from jpr.types import Ranking, Reply

BATCH = 8
"""Questions that a worker gets together; it equals the batch of rerankers that have one, so that
results do not depend on it."""


class KeyedReranker(Reranker, Protocol):
    """A reranker with a name for everything its choices depend on."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same choices."""


class DecodingReranker(KeyedReranker, Protocol):
    """A reranker that also returns its searches."""

    def decode_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Reply]:
        """Do the same as `rank_many`, and return the searches too."""


def rerank_to_file(
    reranker: KeyedReranker,
    rankings: Sequence[Ranking],
    path: Path,
    k: int,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
) -> None:
    """Write k passages for each question."""
    write_resumably(
        [path],
        key_of(rankings, k, reranker.key),
        lambda done: run(partial(_ranked, k=k), reranker, rankings[done:], BATCH),
        lambda ranking, streams: write_rankings([ranking], streams[0]),
        progress,
    )


def rerank_with_trees(
    reranker: DecodingReranker,
    rankings: Sequence[Ranking],
    path: Path,
    trees: Path,
    k: int,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
) -> None:
    """Do the same, and write the searches to a second file."""

    def write(reply: Reply, streams: Sequence[TextIO]) -> None:
        write_rankings([reply.ranking], streams[0])
        streams[1].write(tree_line(reply))

    write_resumably(
        [path, trees],
        key_of(rankings, k, reranker.key),
        lambda done: run(partial(_decoded, k=k), reranker, rankings[done:], BATCH),
        write,
        progress,
    )


def _ranked(reranker: Reranker, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
    return reranker.rank_many(rankings, k)


def _decoded(reranker: DecodingReranker, rankings: Iterable[Ranking], k: int) -> Iterator[Reply]:
    return reranker.decode_many(rankings, k)


def key_of(rankings: Sequence[Ranking], k: int, key: str) -> str:
    """Return a hash of everything that the result depends on."""
    digest = hashlib.sha256(f"{key!r} {k}\n".encode())
    for ranking in rankings:
        question = ranking.question
        gold = (question.answers, question.annotations, question.regex)
        digest.update(repr((question.id, question.text, gold, len(ranking.hits))).encode())
        for hit in ranking.hits:
            passage = hit.passage
            # Titles and texts are long: their lengths keep them apart, and no repr is needed.
            whole = f"{len(passage.id)} {len(passage.title)} {len(passage.text)} {hit.score!r} "
            whole += f"{passage.id}{passage.title}{passage.text}"
            digest.update(whole.encode("utf-8", "surrogatepass"))
            digest.update(repr(passage.meta).encode())
    return digest.hexdigest()
