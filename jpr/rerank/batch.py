"""Rerankings of a run, written to a file; a killed run resumes where it stopped.

With trees, a second file holds the search of each question, a JSON line each
(`jpr.formats.replies.tree_line`).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from jpr.formats.replies import tree_line
from jpr.formats.runs import write_rankings
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.stages import Progress, Reranker
from jpr.types import Ranking, Reply

if TYPE_CHECKING:  # a diversifier works without the joint model's libraries
    from jpr.rerank.joint import JointReranker

BATCH = 8
"""Questions that a worker gets together; it equals the batch of rerankers that have one, so that
results do not depend on it."""


class KeyedReranker(Reranker, Protocol):
    """A reranker with a name for everything its choices depend on."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same choices."""


def rerank_to_file(
    reranker: KeyedReranker,
    rankings: Sequence[Ranking],
    path: Path,
    k: int,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
    *,
    trees: Path | None = None,
) -> None:
    """Write k passages for each question; the searches of a joint reranker to `trees`."""
    choose: Callable[..., Iterator[Ranking | Reply]] = partial(_decode if trees else _rank, k=k)

    def write(chosen: Ranking | Reply, streams: Sequence[TextIO]) -> None:
        if isinstance(chosen, Reply):
            streams[1].write(tree_line(chosen))
            chosen = chosen.ranking
        write_rankings([chosen], streams[0])

    write_resumably(
        [path, trees] if trees else [path],
        key_of(rankings, k, reranker.key),
        lambda done: run(choose, reranker, rankings[done:], BATCH),
        write,
        progress,
    )


def _rank(reranker: Reranker, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
    return reranker.rank_many(rankings, k)


def _decode(reranker: "JointReranker", rankings: Iterable[Ranking], k: int) -> Iterator[Reply]:
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
