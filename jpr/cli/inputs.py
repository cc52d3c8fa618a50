"""What `jpr evaluate` scores, read from its files and scored."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from jpr.cli import screen
from jpr.cli.corpora import read_corpus
from jpr.errors import ConfigError, DataError
from jpr.io.locks import cache_folder

if TYPE_CHECKING:
    from jpr.evaluation.answers import AnswerMeasure
    from jpr.evaluation.evaluation import Evaluation
    from jpr.evaluation.measures import Measure
    from jpr.formats.runs.trec import Judgement
    from jpr.types import Question, Ranking

T = TypeVar("T")
Runs = dict[Path, "list[Ranking]"]


QuestionsOption = Annotated[
    Path | None, typer.Option("--questions", "-q", help="Questions, if the run lacks them.")
]
CorpusOption = Annotated[
    Path | None, typer.Option("--corpus", help="Passages, if the run holds only their ids.")
]
DocsOption = Annotated[
    Path | None, typer.Option("--docs", metavar="FOLDER", help="Folder of documents to ask.")
]
IndexOption = Annotated[
    Path | None, typer.Option("--index", metavar="DIR", help="Index to ask, made by `jpr index`.")
]


def refuse_both(docs: Path | None, index: Path | None) -> None:
    """Refuse two things to ask."""
    if docs is not None and index is not None:
        raise ConfigError("--docs and --index exclude each other; leave one out")


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
    from jpr.evaluation.evaluation import evaluate
    from jpr.evaluation.plots import curve_measures
    from jpr.formats.runs.align import align
    from jpr.formats.runs.trec import load_qrels

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
        _naming_files(loaded, partial(align, questions)),
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
            cache=cache_folder() if inputs.cache else None,
            progress=progress,
        )


def score_answers(
    measures: "Sequence[AnswerMeasure]", paths: Sequence[Path], questions: Path | None
) -> "Evaluation":
    """Score files of answers."""
    from jpr.evaluation.evaluation import evaluate_answers
    from jpr.formats.runs.align import align_predictions
    from jpr.formats.runs.predictions import load_predictions

    asked = _questions(questions, [])
    systems = {path: load_predictions(path) for path in paths}
    with _naming_files(systems, partial(align_predictions, asked)):
        return evaluate_answers(asked, {str(path): systems[path] for path in paths}, measures)


@contextmanager
def _naming_files(files: Mapping[Path, T], align: Callable[[T], object]) -> Iterator[None]:
    """Where something does not fit the questions, find the file that it is in."""
    try:
        yield
    except DataError:
        for path, records in files.items():
            with naming(path):
                align(records)
        raise


def _questions(path: Path | None, qrels: "list[Judgement]") -> "list[Question]":
    from jpr.formats.questions import load_questions
    from jpr.types import Question

    if path is not None:
        return load_questions(path)
    if not qrels:
        raise ConfigError("say which questions are answered: --questions FILE")
    return [Question(id, "") for id in dict.fromkeys(j.question_id for j in qrels)]


def _rankings(paths: Iterable[Path], corpus: Path | None) -> Runs:
    """Read runs, and the texts that all of them lack in one pass over the corpus."""
    from jpr.formats.runs import load_rankings
    from jpr.formats.runs.align import fill_texts, texts_for

    runs = {path: load_rankings(path) for path in paths}
    if corpus is None:
        return runs
    with screen.progress("reading passages", None) as progress:
        passages = screen.counted(read_corpus(corpus), progress)
        texts = texts_for(chain.from_iterable(runs.values()), passages)
    for path in runs:
        with naming(path):
            runs[path] = fill_texts(runs[path], texts.values())
    return runs


def refuse_own(out: Path, *inputs: Path | None) -> None:
    """Refuse to write over what is read."""
    for path in inputs:
        if path is not None and path.exists() and out.exists() and out.samefile(path):
            raise ConfigError(f"--out {out} is a file that is read; name another")


def refuse_useless(
    option: str, name: str, given: Mapping[str, object], known: Mapping[str, Sequence[str]]
) -> None:
    """Refuse a name that is not known, and what was given for others; `known` is what each uses."""
    if name not in known:
        raise ConfigError(f"{option} {name}; choose one of {', '.join(known)}")
    useless = [one for one, value in given.items() if value is not None and one not in known[name]]
    if useless:
        others = [other for other, uses in known.items() if {*useless} & {*uses}]
        raise ConfigError(
            f"{option} {name} has no use for {', '.join(useless)} (for {', '.join(others)}); "
            "leave out what it cannot use"
        )
