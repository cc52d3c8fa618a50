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
    wanted = {hit.passage.id for ranking in run for hit in ranking.hits if _bare(hit.passage)}
    n_wanted = len(wanted)
    texts: dict[str, Passage] = {}
    if wanted:
        for passage in passages:
            if passage.id in wanted:
                wanted.remove(passage.id)
                texts[passage.id] = passage
                if not wanted:
                    break
    if wanted:
        raise DataError(
            f"{len(wanted)} of {n_wanted} passages of the run are not in the corpus, "
            f"e.g. {min(wanted)!r}; is it the corpus that the run was made with?"
        )
    return [
        Ranking(ranking.question, tuple(_filled(hit, texts) for hit in ranking.hits))
        for ranking in run
    ]


def _bare(passage: Passage) -> bool:
    return not passage.title and not passage.text


def _filled(hit: Hit, texts: dict[str, Passage]) -> Hit:
    if not _bare(hit.passage):
        return hit
    known = texts[hit.passage.id]
    if hit.passage.meta:
        meta = {**known.meta, **hit.passage.meta}
        known = Passage(known.id, known.title, known.text, meta)
    return Hit(known, hit.score)
