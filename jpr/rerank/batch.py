"""The rerankings of a run into a file; a killed run goes on where it was.

With trees, a second file says how each ranking was decoded, a JSON line per question:
`{"id", "question", "nodes": [{"passage", "prefix", "depth", "log_prob", "score", "is_new",
"instead_of": [{"passage", "prefix", "score"}], "adds": [{"answer", "probability", "overall",
"spans"}]}]}`, passages by their ids, nodes in the order in which the search made them. A
log-probability of minus infinity is null.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Protocol, TextIO

from jpr.decode import Node, Prefix
from jpr.formats.gold import json_line
from jpr.formats.runs import write_rankings
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.rerank.explain import Added, Choice
from jpr.stages import Progress, Reranker
from jpr.types import Ranking

BATCH = 8
"""Questions that a worker is given together: no reranker's results depend on it, as those that take
several at a time take so many."""


class KeyedReranker(Reranker, Protocol):
    """A reranker that can say all that its choices depend on."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same choices."""


class DecodingReranker(KeyedReranker, Protocol):
    """A reranker that can say how it decoded."""

    def decode_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Choice]:
        """Do as `rank_many` does, and say how."""


def rerank_to_file(
    reranker: KeyedReranker,
    rankings: Sequence[Ranking],
    path: Path,
    k: int,
    progress: Progress = lambda _: None,
    spread: BatchRunner = run_locally,
) -> None:
    """Write k passages for each question."""
    write_resumably(
        [path],
        key_of(rankings, k, reranker.key),
        lambda done: spread(partial(_ranked, k=k), reranker, rankings[done:], BATCH),
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
    spread: BatchRunner = run_locally,
) -> None:
    """Do the same, and write beside each ranking how it was decoded."""

    def write(record: tuple[Ranking, Choice], streams: Sequence[TextIO]) -> None:
        candidates, choice = record
        write_rankings([choice.ranking], streams[0])
        streams[1].write(tree_line(candidates, choice))

    def records(done: int) -> Iterator[tuple[Ranking, Choice]]:
        left = rankings[done:]
        return zip(left, spread(partial(_decoded, k=k), reranker, left, BATCH), strict=True)

    write_resumably(
        [path, trees],
        key_of(rankings, k, reranker.key),
        records,
        write,
        progress,
    )


def _ranked(reranker: Reranker, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
    return reranker.rank_many(rankings, k)


def _decoded(reranker: DecodingReranker, rankings: Iterable[Ranking], k: int) -> Iterator[Choice]:
    return reranker.decode_many(rankings, k)


def tree_line(candidates: Ranking, choice: Choice) -> str:
    """Return how passages of the candidates of a question were chosen, as a line of JSON."""
    question, nodes = candidates.question, tree_nodes(candidates, choice)
    return json_line({"id": question.id, "question": question.text, "nodes": nodes})


def tree_nodes(candidates: Ranking, choice: Choice) -> list[dict[str, object]]:
    """Return the nodes of such a line."""
    ids = [hit.passage.id for hit in candidates.hits]
    made = choice.decoded.nodes
    return [
        {**_node(node, ids), "adds": [_answer(one) for one in adds]}
        for node, adds in zip(made, choice.adds or [()] * len(made), strict=True)
    ]


def _node(node: Node, ids: Sequence[str]) -> dict[str, object]:
    return {
        **_expansion(node.prefix, node.passage, node.score, ids),
        "depth": len(node.prefix) + 1,
        "log_prob": _number(node.log_prob),
        "is_new": node.is_new,
        "instead_of": [_expansion(*other, ids) for other in node.instead_of],
    }


def _answer(added: Added) -> dict[str, object]:
    return {
        "answer": added.text,
        "probability": round(added.probability, 4),
        "overall": round(added.overall, 4),
        "spans": added.spans,
    }


def _expansion(prefix: Prefix, passage: int, score: float, ids: Sequence[str]) -> dict[str, object]:
    return {
        "passage": ids[passage],
        "prefix": [ids[earlier] for earlier in prefix],
        "score": _number(score),
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def key_of(rankings: Sequence[Ranking], k: int, key: str) -> str:
    """Name a run: two with the same name are the same."""
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
