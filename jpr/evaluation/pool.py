"""The pool: all passages of any run for a question, from which an ideal ranking may choose."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, pairwise

from jpr.errors import DataError
from jpr.formats.runs.trec import Judgement
from jpr.types import Hit, Passage, Question, Ranking

Clusters = Mapping[str, Mapping[str, set[str]]]
"""Question id -> subtopic -> ids of its relevant passages."""


def relevant_clusters(qrels: Iterable[Judgement]) -> Clusters:
    """Group relevant judgements by question and subtopic."""
    relevant: dict[str, dict[str, set[str]]] = {}
    for judgement in sorted(qrels, key=lambda judgement: judgement.subtopic):
        if judgement.relevance > 0:
            subtopics = relevant.setdefault(judgement.question_id, {})
            subtopics.setdefault(judgement.subtopic, set()).add(judgement.passage_id)
    return relevant


def has_tied_scores(ranking: Ranking) -> bool:
    """Return whether most neighbouring passages have equal scores."""
    ties = sum(a.score == b.score for a, b in pairwise(ranking.hits))
    return 2 * ties > max(len(ranking.hits) - 1, 0)


def break_ties(ranking: Ranking) -> Ranking:
    """Order passages of equal score by descending id, as trec_eval does.

    Otherwise a system that gives all passages the same score would be judged by its input's order.
    """
    if all(a.score != b.score for a, b in pairwise(ranking.hits)):
        return ranking
    hits: list[Hit] = []
    for _, tied in groupby(ranking.hits, key=lambda hit: hit.score):
        hits += sorted(tied, key=lambda hit: hit.passage.id, reverse=True)
    return Ranking(ranking.question, tuple(hits))


def pool_runs(
    questions: Sequence[Question], runs: Sequence[Sequence[Ranking]], relevant: Clusters
) -> list[Ranking]:
    """Return each question's passages from all runs and judgements, by descending id.

    The same id must have the same text.
    """
    pooled = []
    for question, *rankings in zip(questions, *runs, strict=True):
        hits: dict[str, Hit] = {}
        for hit in chain.from_iterable(ranking.hits for ranking in rankings):
            known = hits.setdefault(hit.passage.id, hit).passage
            if known.text != hit.passage.text and known.is_bare:  # another run may have its text
                hits[known.id] = hit
            elif known.text != hit.passage.text and not hit.passage.is_bare:
                raise DataError(
                    f"question {question.id!r}: passage {known.id!r} has two different texts; "
                    "the runs are from different corpora"
                )
        for id in chain.from_iterable(relevant.get(question.id, {}).values()):
            hits.setdefault(id, Hit(Passage(id, "", ""), 0.0))
        pooled.append(Ranking(question, tuple(hits[id] for id in sorted(hits, reverse=True))))
    return pooled


def positions_in(rankings: Sequence[Ranking], pooled: Sequence[Ranking]) -> list[list[int]]:
    """Return the positions of each ranking's passages in the pool."""
    positions = []
    for ranking, pool in zip(rankings, pooled, strict=True):
        place = {hit.passage.id: i for i, hit in enumerate(pool.hits)}
        positions.append([place[hit.passage.id] for hit in ranking.hits])
    return positions
