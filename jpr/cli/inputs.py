"""What `jpr evaluate` scores, read from its files and scored."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.cli import screen
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.judge.answers import AnswerMeasure
    from jpr.judge.evaluation import Evaluation
    from jpr.judge.measures import Measure
    from jpr.runs.qrels import Judgement
    from jpr.types import Passage, Question, Ranking

Runs = dict[Path, "list[Ranking]"]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say of what does not fit together which file it is in."""
    try:
        yield
    except DataError as error:
        named = str(error).startswith(f"{path}: ")
        raise error if named else DataError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Inputs:
    """Where the evaluation of runs takes its inputs from."""

    runs: Sequence[Path]
    questions: Path | None
    corpus: Path | None
    qrels: Path | None
    pool: Path | None
    strict: bool
    cache: bool


def score_runs(measures: "Sequence[Measure]", inputs: Inputs, curve: bool) -> "Evaluation":
    """Score runs by the measures, and after them by those that the curve needs."""
    from jpr.judge.evaluation import evaluate
    from jpr.judge.plots import curve_measures
    from jpr.runs.qrels import load_qrels

    if not inputs.runs:
        raise ConfigError("no run is given; try: jpr evaluate --example")
    qrels = load_qrels(inputs.qrels) if inputs.qrels else []
    questions = _questions(inputs.questions, qrels)
    others = [inputs.pool] if inputs.pool else []
    loaded = _rankings([*inputs.runs, *others], inputs.corpus)
    if curve and not qrels:
        longest = max((len(r.hits) for path in inputs.runs for r in loaded[path]), default=1)
        measures = [*measures, *(m for m in curve_measures(longest) if m not in measures)]
    with (
        screen.warnings_as_notes(),
        _naming_runs(questions, loaded),
        screen.progress("searching answers", len(questions)) as progress,
    ):
        return evaluate(
            questions,
            {str(path): loaded[path] for path in inputs.runs},
            measures,
            pool=loaded[inputs.pool] if inputs.pool else [],
            qrels=qrels,
            strict=inputs.strict,
            workers=screen.workers(),
            cache=screen.cache_folder() if inputs.cache else None,
            progress=progress,
        )


def score_answers(
    measures: "Sequence[AnswerMeasure]", paths: Sequence[Path], questions: Path | None
) -> "Evaluation":
    """Score files of answers."""
    from jpr.judge.evaluation import evaluate_answers
    from jpr.runs.align import align_predictions
    from jpr.runs.predictions import load_predictions

    asked = _questions(questions, [])
    systems = {path: load_predictions(path) for path in paths}
    for path, given in systems.items():
        with naming(path):
            align_predictions(asked, given)
    return evaluate_answers(asked, {str(path): systems[path] for path in paths}, measures)


@contextmanager
def _naming_runs(questions: "list[Question]", runs: Runs) -> Iterator[None]:
    """Where something does not fit, find the run that it is in."""
    from jpr.runs.align import align

    try:
        yield
    except DataError:
        for path, rankings in runs.items():
            with naming(path):
                align(questions, rankings)
        raise


def _questions(path: Path | None, qrels: "list[Judgement]") -> "list[Question]":
    from jpr.questions import load_questions
    from jpr.types import Question

    if path is not None:
        return load_questions(path)
    if not qrels:
        raise ConfigError("say which questions are answered: --questions FILE")
    return [Question(id, "") for id in dict.fromkeys(j.question_id for j in qrels)]


def _rankings(paths: Iterable[Path], corpus: Path | None) -> Runs:
    """Read runs, and the texts that all of them lack in one pass over the corpus."""
    from jpr.corpus import read_passages
    from jpr.runs import load_rankings
    from jpr.runs.texts import fill_texts

    runs = {path: load_rankings(path) for path in paths}
    if corpus is None:
        return runs
    with screen.progress("reading passages", None) as progress:
        passages = _wanted(runs, screen.counted(read_passages(corpus), progress))
    for path in runs:
        with naming(path):
            runs[path] = fill_texts(runs[path], passages)
    return runs


def _wanted(runs: Runs, passages: "Iterable[Passage]") -> "list[Passage]":
    """Return the passages of which the runs hold only ids, reading no further than needed."""
    hits = (hit for rankings in runs.values() for ranking in rankings for hit in ranking.hits)
    wanted = {hit.passage.id for hit in hits if not (hit.passage.title or hit.passage.text)}
    found: list[Passage] = []
    if wanted:
        for passage in passages:
            if passage.id in wanted:
                found.append(passage)
                if len(found) == len(wanted):
                    break
    return found
