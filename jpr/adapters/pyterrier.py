"""PyTerrier: a transformer, `bm25 % 100 >> JprTransformer()`. It needs no Java."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from jpr.adapters.choose import K, candidate, check_k, choose_many
from jpr.errors import MissingExtraError
from jpr.stages import Reranker
from jpr.types import Question, Ranking

try:
    import pyterrier
    from pandas import DataFrame
except ImportError as error:
    raise MissingExtraError("the adapter for PyTerrier", "pyterrier") from error

Row = dict[str, Any]


class JprTransformer(pyterrier.Transformer):
    """Keeps the documents of each query that together cover the most answers.

    Reads `qid`, `query`, `docno`, `text` and perhaps `title`, and keeps every column; `score` and
    `rank` are new.
    """

    def __init__(self, reranker: Reranker | None = None, k: int = K) -> None:
        """Choose with a reranker, by default the bundled joint model."""
        self.reranker, self.k = reranker, check_k(k)

    def transform(self, inp: DataFrame) -> DataFrame:
        """Return k rows per query, best first; all if there are fewer."""
        pyterrier.validate.columns(inp, includes=["qid", "query", "docno", "text"])
        chosen: list[tuple[int, float, int]] = []  # row, score, rank
        rankings = _rankings(inp.to_dict(orient="records")) if len(inp) else ()
        for found in choose_many(self.reranker, rankings, self.k):
            chosen += [(*one, rank) for rank, one in enumerate(found, pyterrier.model.FIRST_RANK)]
        result = inp.iloc[[row for row, _, _ in chosen]].reset_index(drop=True)
        result["score"] = np.array([score for _, score, _ in chosen], dtype=np.float64)
        result["rank"] = np.array([rank for _, _, rank in chosen], dtype=np.int64)
        return result

    def __repr__(self) -> str:
        return f"JprTransformer({self.reranker!r}, k={self.k})"


def _rankings(rows: list[Row]) -> Iterator[Ranking]:
    """Yield each query's rows, best first: a frame need not be sorted."""
    positions: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        positions.setdefault(row["qid"], []).append(at)
    for qid, own in positions.items():
        own.sort(key=lambda at: rows[at].get("rank", 0))
        hits = [candidate(at, (rows[at]["text"], rows[at], rows[at].get("score"))) for at in own]
        yield Ranking(Question(str(qid), rows[own[0]]["query"]), tuple(hits))
