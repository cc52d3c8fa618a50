"""PyTerrier: a transformer, `bm25 % 100 >> JprTransformer()`. It needs no Java."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from jpr.adapters.choose import K, candidate, checked, choose_many
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
    """Keeps, of the documents found for each query, those that together hold the most answers.

    Takes `qid`, `query`, `docno` and `text`, reads `title` where there is one, and passes on
    every column; `score` and `rank` are its own.
    """

    def __init__(self, reranker: Reranker | None = None, k: int = K) -> None:
        """Choose by a reranker; without one, by the joint model that comes with the package."""
        self.reranker, self.k = reranker, checked(k)

    def transform(self, inp: DataFrame) -> DataFrame:
        """Return k rows per query, best first; all where there are fewer."""
        pyterrier.validate.columns(inp, includes=["qid", "query", "docno", "text"])
        chosen = list(self._chosen(inp)) if len(inp) else []  # PyTerrier tries it with no rows
        result = inp.iloc[[place for place, _, _ in chosen]].reset_index(drop=True)
        result["score"] = np.array([score for _, score, _ in chosen], dtype=np.float64)
        result["rank"] = np.array([rank for _, _, rank in chosen], dtype=np.int64)
        return result

    def _chosen(self, results: DataFrame) -> Iterator[tuple[int, float, int]]:
        """Yield the rows chosen, by place, with their new scores and ranks."""
        rankings = _rankings(results.to_dict(orient="records"))
        for found in choose_many(self.reranker, rankings, self.k):
            for rank, (place, score) in enumerate(found, start=pyterrier.model.FIRST_RANK):
                yield place, score, rank

    def __repr__(self) -> str:
        return f"JprTransformer({self.reranker!r}, k={self.k})"


def _rankings(rows: list[Row]) -> Iterator[Ranking]:
    """Yield each query's rows, best first: a frame need not be sorted."""
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row["qid"], []).append(place)
    for qid, own in places.items():
        own.sort(key=lambda place: rows[place].get("rank", 0))
        hits = [
            candidate(place, rows[place]["text"], rows[place], rows[place].get("score"))
            for place in own
        ]
        yield Ranking(Question(str(qid), rows[own[0]]["query"]), tuple(hits))
