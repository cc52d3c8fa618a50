"""How well the retrievers of an index serve some questions."""

from collections.abc import Sequence
from pathlib import Path

from jpr.evaluation.evaluation import Evaluation, evaluate
from jpr.evaluation.measures import MRecall
from jpr.io.locks import cache_folder
from jpr.retrieve.retrievers import open_retriever
from jpr.stages import Progress
from jpr.types import Question, Ranking

CANDIDATES = 100
MEASURES = [MRecall @ 5, MRecall @ 10]


def score_retrievers(
    index: Path, questions: Sequence[Question], kinds: Sequence[str], progress: Progress
) -> Evaluation:
    """Retrieve candidates for the questions by each kind of retriever, and score them."""
    runs: dict[str, list[Ranking]] = {kind: [] for kind in kinds}
    for kind, run in runs.items():
        for ranking in open_retriever(index, kind).retrieve_many(questions, CANDIDATES):
            run.append(ranking)
            progress(1)
    return evaluate(questions, runs, MEASURES, cache=cache_folder())
