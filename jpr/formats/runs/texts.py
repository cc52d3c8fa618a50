"""Texts for runs that hold only ids, from one pass over the corpus."""

from collections.abc import Iterable

from jpr.errors import DataError
from jpr.types import Hit, Passage, Ranking


def fill_texts(rankings: Iterable[Ranking], passages: Iterable[Passage]) -> list[Ranking]:
    """Give every passage that has neither title nor text those of the corpus, and its meta.

    The corpus is read once, no further than needed, and memory holds only what is needed of it.

    >>> from jpr.types import Question
    >>> run = [Ranking(Question("q", "?"), (Hit(Passage("7", "", ""), 1.0),))]
    >>> fill_texts(run, [Passage("7", "Moon", "It shines.")])[0].hits[0].passage.text
    'It shines.'
    """
    run = list(rankings)
    texts = texts_for(run, passages)
    absent = _ids(run) - texts.keys()
    if absent:
        raise DataError(
            f"{len(absent)} of {len(texts) + len(absent)} passages of the run are not in the "
            f"corpus, e.g. {min(absent)!r}; is it the corpus that the run was made with?"
        )
    return [
        Ranking(ranking.question, tuple(_filled(hit, texts) for hit in ranking.hits))
        for ranking in run
    ]


def texts_for(rankings: Iterable[Ranking], passages: Iterable[Passage]) -> dict[str, Passage]:
    """Return those passages, by id, of which the rankings hold only ids."""
    wanted = _ids(rankings)
    texts: dict[str, Passage] = {}
    if wanted:
        for passage in passages:
            if passage.id in wanted:
                texts[passage.id] = passage
                if len(texts) == len(wanted):
                    break
    return texts


def _ids(rankings: Iterable[Ranking]) -> set[str]:
    return {hit.passage.id for r in rankings for hit in r.hits if hit.passage.is_bare}


def _filled(hit: Hit, texts: dict[str, Passage]) -> Hit:
    if not hit.passage.is_bare:
        return hit
    known = texts[hit.passage.id]
    if hit.passage.meta:
        meta = {**known.meta, **hit.passage.meta}
        known = Passage(known.id, known.title, known.text, meta)
    return Hit(known, hit.score)
