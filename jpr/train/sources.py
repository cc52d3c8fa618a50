"""Where the rankings of a pack come from: runs, read twice and never held, or an index."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jpr.formats.runs import read_rankings
from jpr.formats.runs.align import align, fill_texts
from jpr.stages import Progress, Retriever
from jpr.train.packing import Source
from jpr.types import Hit, Passage, Question, Ranking


def has_answers(question: Question) -> bool:
    """Tell whether there is anything to look for in passages."""
    return bool(question.answers or question.regex)


def from_retriever(
    name: str, questions: Sequence[Question], retriever: Retriever, k: int
) -> Source:
    """Take questions with what is retrieved for them."""
    asked = [question for question in questions if has_answers(question)]
    return Source(name, len(asked), lambda done: retriever.retrieve_many(asked[done:], k))


@dataclass(frozen=True, slots=True)
class RunSurvey:
    """Which question with answers each ranking of a run belongs to, and what the run lacks."""

    run: Path
    by_place: Mapping[int, Question]
    """Gold questions by the places of their rankings in the run."""
    missing: tuple[Question, ...]
    """Questions without a ranking."""
    unknown: int
    """Rankings without a question."""
    bare: frozenset[str]
    """Ids of passages without a text."""

    def source(self, name: str, texts: Mapping[str, Passage]) -> Source:
        """Return the questions in the run's order, after them those it lacks; `texts` by ids."""
        count = len(self.by_place) + len(self.missing)
        return Source(name, count, lambda done: islice(self._rankings(texts), done, None))

    def _rankings(self, texts: Mapping[str, Passage]) -> Iterator[Ranking]:
        for place, ranking in enumerate(read_rankings(self.run)):
            question = self.by_place.get(place)
            if question is not None:
                yield from _filled(Ranking(question, ranking.hits), texts)
        yield from (Ranking(question, ()) for question in self.missing)


def survey(
    run: Path, questions: Sequence[Question], progress: Progress = lambda _: None
) -> RunSurvey:
    """Read a run once to see what it holds; a question is found as `runs.align` does."""
    bare: set[str] = set()

    def stubs() -> Iterator[Ranking]:
        """Give each ranking its place as its only passage, so that little is held."""
        for place, ranking in enumerate(read_rankings(run)):
            bare.update(hit.passage.id for hit in ranking.hits if hit.passage.is_bare)
            yield Ranking(ranking.question, (Hit(Passage(str(place), "", ""), 0.0),))
            progress(1)

    aligned = align(questions, stubs())
    kept = [ranking for ranking in aligned.rankings if has_answers(ranking.question)]
    found = {int(r.hits[0].passage.id): r.question for r in kept if r.hits}
    missing = tuple(ranking.question for ranking in kept if not ranking.hits)
    ordered = dict(sorted(found.items()))
    return RunSurvey(run, ordered, missing, len(aligned.unknown), frozenset(bare))


def texts_of(surveys: Sequence[RunSurvey], corpus: Iterable[Passage]) -> dict[str, Passage]:
    """Return the texts that runs lack, by ids, from one pass over the corpus."""
    wanted = frozenset[str]().union(*(known.bare for known in surveys))
    stub = Ranking(Question("", ""), tuple(Hit(Passage(id, "", ""), 0.0) for id in wanted))
    return {hit.passage.id: hit.passage for hit in fill_texts([stub], corpus)[0].hits}


def _filled(ranking: Ranking, texts: Mapping[str, Passage]) -> list[Ranking]:
    if not texts:
        return [ranking]
    ids = [hit.passage.id for hit in ranking.hits if hit.passage.is_bare]
    return fill_texts([ranking], [texts[id] for id in ids])
