"""The pool: all passages that any run found for a question, which an ideal ranking may use."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

from jpr.errors import DataError
from jpr.runs.qrels import Judgement
from jpr.types import Hit, Passage, Question, Ranking

Clusters = Mapping[str, Mapping[str, set[str]]]
"""Question id -> subtopic -> ids of its relevant passages."""


def clusters_of(qrels: Iterable[Judgement]) -> Clusters:
    """Group judgements by question and subtopic; a subtopic without a relevant passage is none."""
    relevant: dict[str, dict[str, set[str]]] = {}
    for judgement in sorted(qrels, key=lambda judgement: judgement.subtopic):
        if judgement.relevance > 0:
            subtopics = relevant.setdefault(judgement.question_id, {})
            subtopics.setdefault(judgement.subtopic, set()).add(judgement.passage_id)
    return relevant


def is_flat(ranking: Ranking) -> bool:
    """Tell whether most neighbours have the same score: the passages are hardly ranked."""
    ties = sum(a.score == b.score for a, b in pairwise(ranking.hits))
    return 2 * ties > max(len(ranking.hits) - 1, 0)


def settle_ties(ranking: Ranking) -> Ranking:
    """Put neighbours of equal score in descending order of their ids, as trec_eval does.

    A system that gives every passage the same score has not ranked them: without this it would be
    judged by the order of the file it was given.
    """
    hits: list[Hit] = []
    for _, tied in groupby(ranking.hits, key=lambda hit: hit.score):
        hits += sorted(tied, key=lambda hit: hit.passage.id, reverse=True)
    return Ranking(ranking.question, tuple(hits))


def pool_runs(
    questions: Sequence[Question], runs: Sequence[Sequence[Ranking]], relevant: Clusters
) -> list[Ranking]:
    """Return each question's passages from all runs and judgements, by descending id."""
    pooled = []
    for i, question in enumerate(questions):
        passages: dict[str, Passage] = {}
        for run in runs:
            for hit in run[i].hits:
                known = passages.setdefault(hit.passage.id, hit.passage)
                if known.text != hit.passage.text:
                    raise DataError(
                        f"question {question.id!r}: passage {known.id!r} has two different texts; "
                        "the runs come from different corpora"
                    )
        for ids in relevant.get(question.id, {}).values():
            for id in ids:
                passages.setdefault(id, Passage(id, "", ""))
        hits = tuple(Hit(passages[id], 0.0) for id in sorted(passages, reverse=True))
        pooled.append(Ranking(question, hits))
    return pooled


def positions_in(rankings: Sequence[Ranking], pooled: Sequence[Ranking]) -> list[list[int]]:
    """Return where each ranking's passages stand in the pool."""
    positions = []
    for ranking, pool in zip(rankings, pooled, strict=True):
        place = {hit.passage.id: i for i, hit in enumerate(pool.hits)}
        positions.append([place[hit.passage.id] for hit in ranking.hits])
    return positions
