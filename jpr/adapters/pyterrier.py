"""PyTerrier: a transformer, `bm25 % 100 >> JprTransformer()`. It needs no Java."""

from collections.abc import Iterator

import numpy as np

from jpr.adapters.choose import K, check_k, choose_many, ranking
from jpr.errors import needs_extra
from jpr.stages import Reranker
from jpr.types import Ranking

with needs_extra("the adapter for PyTerrier", "pyterrier"):
    import pyterrier
    from pandas import DataFrame


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
        frame = inp.reset_index(drop=True)
        chosen = list(choose_many(self.reranker, _rankings(frame), self.k))
        result = frame.iloc[[row for row, _ in chosen]].reset_index(drop=True)
        result["score"] = np.array([score for _, score in chosen], dtype=np.float64)
        in_query = result.groupby("qid", sort=False, dropna=False).cumcount()
        result["rank"] = in_query + pyterrier.model.FIRST_RANK
        return result

    def __repr__(self) -> str:
        return f"JprTransformer({self.reranker!r}, k={self.k})"


def _rankings(frame: DataFrame) -> Iterator[Ranking]:
    """Yield each query's rows, best first: a frame need not be sorted."""
    for qid, own in frame.groupby("qid", sort=False, dropna=False):
        rows = (own.sort_values("rank", kind="stable") if "rank" in own else own).to_dict("index")
        documents = ((at, (row["text"], row, row.get("score"))) for at, row in rows.items())
        yield ranking(str(qid), own["query"].iloc[0], documents)
