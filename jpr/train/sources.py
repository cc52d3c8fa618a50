"""Where the rankings of a pack come from: runs, read twice and never held, or an index."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jpr.formats.runs import read_rankings
from jpr.formats.runs.align import align, fill_texts
from jpr.stages import Progress, Retriever
from jpr.train.packing import PackSource
from jpr.types import Hit, Passage, Question, Ranking


def has_answers(question: Question) -> bool:
    """Return whether a question has answers to look for in passages."""
    return bool(question.answers or question.regex)


def from_retriever(
    name: str, questions: Sequence[Question], retriever: Retriever, k: int
) -> PackSource:
    """Return questions with the candidates that are retrieved for them."""
    asked = [question for question in questions if has_answers(question)]
    return PackSource(name, len(asked), lambda done: retriever.retrieve_many(asked[done:], k))


@dataclass(frozen=True, slots=True)
class RunSurvey:
    """The questions with answers that rankings of a run belong to, and what the run lacks."""

    run: Path
    by_place: Mapping[int, Question]  # gold questions by the places of their rankings in the run
    missing: tuple[Question, ...]  # questions without a ranking
    unknown: int  # rankings without a question
    bare: frozenset[str]  # ids of passages without a text

    def source(self, name: str, texts: Mapping[str, Passage]) -> PackSource:
        """Return the questions in the run's order, then those it lacks; `texts` by ids."""
        count = len(self.by_place) + len(self.missing)
        return PackSource(name, count, lambda done: islice(self._rankings(texts), done, None))

    def _rankings(self, texts: Mapping[str, Passage]) -> Iterator[Ranking]:
        for place, ranking in enumerate(read_rankings(self.run)):
            question = self.by_place.get(place)
            if question is not None:
                found = Ranking(question, ranking.hits)
                ids = [hit.passage.id for hit in ranking.hits if hit.passage.is_bare]
                yield fill_texts([found], [texts[id] for id in ids])[0] if texts else found
        yield from (Ranking(question, ()) for question in self.missing)


def survey(
    run: Path, questions: Sequence[Question], progress: Progress = lambda _: None
) -> RunSurvey:
    """Read a run once to find the question of each ranking, as `runs.align` does."""
    bare: set[str] = set()

    def stubs() -> Iterator[Ranking]:
        """Yield each ranking with its place as its only passage, to hold little in memory."""
        for place, ranking in enumerate(read_rankings(run)):
            bare.update(hit.passage.id for hit in ranking.hits if hit.passage.is_bare)
            yield Ranking(ranking.question, (Hit(Passage(str(place), "", ""), 0.0),))
            progress(1)

    aligned = align(questions, stubs())
    kept = [ranking for ranking in aligned.items if has_answers(ranking.question)]
    by_place = {int(r.hits[0].passage.id): r.question for r in kept if r.hits}
    missing = tuple(ranking.question for ranking in kept if not ranking.hits)
    return RunSurvey(run, by_place, missing, len(aligned.unknown), frozenset(bare))


def texts_of(surveys: Sequence[RunSurvey], corpus: Iterable[Passage]) -> dict[str, Passage]:
    """Return the texts that runs lack, by ids, from one pass over the corpus."""
    ids = frozenset[str]().union(*(known.bare for known in surveys))
    stub = Ranking(Question("", ""), tuple(Hit(Passage(id, "", ""), 0.0) for id in ids))
    return {hit.passage.id: hit.passage for hit in fill_texts([stub], corpus)[0].hits}
