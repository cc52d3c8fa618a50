"""Retrievers of your own: a function, or a run that another system wrote."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from jpr.errors import DataError
from jpr.formats.runs import load_rankings
from jpr.formats.runs.align import align, check_unique_passages
from jpr.stages import Retriever
from jpr.types import Hit, Question, Ranking


class FunctionRetriever(Retriever):
    """A function of a question's text and k that returns hits, best first.

    >>> from jpr.types import Passage
    >>> def find(text, k):
    ...     return [Hit(Passage("7", "Moon", "It shines."), 1.0)]
    >>> FunctionRetriever(find).retrieve(Question("q", "what shines?"), 5).hits[0].passage.title
    'Moon'
    """

    def __init__(self, find: Callable[[str, int], Iterable[Hit]]) -> None:
        """Wrap a function; only its first k hits are used."""
        self._find = find

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return what the function finds for each question, in their order."""
        for question in questions:
            hits = tuple(islice(self._find(question.text, k), k))
            for hit in hits:
                if not isinstance(hit, Hit):
                    raise DataError(
                        f"question {question.id!r}: the function returned {hit!r:.60}; it must "
                        "return jpr.Hit(jpr.Passage(id, title, text), score), best first"
                    )
            ranking = Ranking(question, hits)
            check_unique_passages(ranking)
            yield ranking


class RunRetriever(Retriever):
    """The rankings of a run, found by the question's id or else its text, as `jpr evaluate` does.

    A question that the run lacks is an error; a ranking shorter than k is returned as it is.
    """

    def __init__(self, rankings: Iterable[Ranking]) -> None:
        """Keep the rankings in memory."""
        self._by_key: dict[tuple[str, str], list[Ranking]] = {}
        for ranking in rankings:
            for key in _keys(ranking.question):
                self._by_key.setdefault(key, []).append(ranking)

    @classmethod
    def load(cls, path: str | Path, format: str | None = None) -> "RunRetriever":
        """Read a run file of any format that `jpr validate` lists."""
        return cls(load_rankings(path, format))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return the first k passages of each question's ranking, in the order of questions."""
        asked = list(questions)
        keys = (key for question in asked for key in _keys(question))
        found = {id(ranking): ranking for key in keys for ranking in self._by_key.get(key, ())}
        aligned = align(asked, found.values()) if found else None
        missing = aligned.missing if aligned else [question.id for question in asked]
        if missing:
            raise DataError(
                f"the run has no ranking for {len(missing)} of {len(asked)} questions, e.g. "
                f"{missing[0]!r}; is it of the same data set?"
            )
        return (ranking.top(k) for ranking in (aligned.items if aligned else ()))


def _keys(question: Question) -> tuple[tuple[str, str], tuple[str, str]]:
    text = (question.text or question.id).strip().casefold()
    return ("id", question.id), ("text", text)
