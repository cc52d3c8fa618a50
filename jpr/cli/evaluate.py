"""`jpr evaluate`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from jpr.cli import output
from jpr.cli.arguments import Corpus, Json, Strict, argument, option
from jpr.cli.checks import reject
from jpr.cli.files import naming, read_corpus
from jpr.errors import ConfigError, DataError
from jpr.io.locks import cache_folder

if TYPE_CHECKING:
    from jpr.evaluation.answers import AnswerMeasure
    from jpr.evaluation.evaluation import Evaluation
    from jpr.evaluation.measures import Measure
    from jpr.formats.runs.trec import Judgement
    from jpr.types import Question, Ranking

T = TypeVar("T")
DEFAULT = ("MRecall@5", "MRecall@10", "alpha_nDCG(0.9)@5", "alpha_nDCG(0.9)@10")
DEFAULT_BY_IDS = ("MRecall_clusters@5", "MRecall_clusters@10", *DEFAULT[2:])
STYLES = ("terminal", "markdown", "latex")
_EXAMPLE = Path(__file__).parent.parent / "assets" / "example"
_EXAMPLE_MEASURES = ["Recall@5", "MRecall@5", "alpha_nDCG(0.9)@5"]


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments:
    """What `jpr evaluate` takes."""

    runs: Annotated[list[Path] | None, argument("Runs: files of rankings.", "[RUN]...")] = None
    questions: Annotated[
        Path | None, option("Input", "File of questions with answers.", "--questions", "-q")
    ] = None
    measure: Annotated[
        list[str] | None,
        option(
            "Output", "For example MRecall@5, alpha_nDCG(0.9)@10; repeatable.", "--measure", "-m"
        ),
    ] = None
    baseline: Annotated[
        Path | None, option("Input", "Run that the others are compared with, by paired tests.")
    ] = None
    corpus: Corpus = None
    qrels: Annotated[
        Path | None,
        option("Input", "Judge by passage ids: question, subtopic, passage, relevance."),
    ] = None
    pool: Annotated[
        Path | None, option("Input", "Run whose passages the ideal ranking of α-nDCG may also use.")
    ] = None
    answers: Annotated[
        list[Path] | None,
        option("Input", "File of answers, scored by AnswerF1 and EM; repeatable."),
    ] = None
    strict: Strict = False
    plots: Annotated[Path | None, option("Output", "Folder for plots (needs the plot extra).")] = (
        None
    )
    json: Json = False
    table: Annotated[str, option("Output", f"Table format: {', '.join(STYLES)}.")] = STYLES[0]
    example: Annotated[bool, option("Input", "Evaluate the bundled example.", "--example")] = False

    def __post_init__(self) -> None:
        files: dict[str, object] = {
            "runs": self.runs,
            "--corpus": self.corpus,
            "--qrels": self.qrels,
            "--pool": self.pool,
        }
        if self.example:
            more = {
                "--questions": self.questions,
                "--baseline": self.baseline,
                "--answers": self.answers,
            }
            reject("--example has its own files; remove these", files | more)
        if self.answers:
            unused = {"--strict": self.strict, "--plots": self.plots}
            reject("has no effect with --answers; remove it", files | unused)
        if self.table not in STYLES:
            raise ConfigError(f"--table {self.table}: choose one of {', '.join(STYLES)}")
        if self.plots:
            from jpr.evaluation.plots import check_matplotlib

            check_matplotlib()

    @property
    def paths(self) -> list[Path]:
        """The runs or answers to score, with the baseline last."""
        given = [*(self.answers or self.runs or []), *([self.baseline] if self.baseline else [])]
        return list(dict.fromkeys(given))


def run(options: EvaluateArguments) -> None:
    """Score runs: how often do k passages cover every answer?

    A run is a file of rankings (ctxs JSON, TREC run, …); --answers scores files of answers instead.
    Every question counts: one that is missing in a run scores 0. With --baseline, --json lists the
    questions won and lost.

    Example: jpr evaluate joint.jsonl --baseline first.jsonl --questions dev.jsonl -m MRecall@5

    Example: jpr evaluate --example
    """
    if options.example:
        options = replace(
            options,
            example=False,
            runs=[_EXAMPLE / "joint.jsonl"],
            baseline=_EXAMPLE / "independent.jsonl",
            questions=_EXAMPLE / "questions.jsonl",
            measure=options.measure or _EXAMPLE_MEASURES,
        )
    if options.answers:
        full = shown = _score_answers(options)
    else:
        measures = _measures(options.measure or (DEFAULT_BY_IDS if options.qrels else DEFAULT))
        shown = (full := _score_runs(options, measures)).first(len(measures))
    _note_oddities(shown, "answers" if options.answers else "rankings")
    _print(shown, options)
    if options.plots is not None:
        _plot(full, options.plots)


def _measures(names: Sequence[str]) -> "list[Measure]":
    from jpr.evaluation.answers import EM, AnswerF1
    from jpr.evaluation.measures import parse_measure

    for name in names:
        if name in (AnswerF1.name, EM.name):
            raise ConfigError(f"{name} scores answers; give them with --answers FILE")
    return [parse_measure(name) for name in names]


def _answer_measures(names: Sequence[str] | None) -> "list[AnswerMeasure]":
    from jpr.evaluation.answers import EM, AnswerF1

    known = {measure.name: measure for measure in (AnswerF1, EM)}
    for name in names or ():
        if name not in known:
            raise ConfigError(f"{name!r} does not score answers; choose {' or '.join(known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def _score_runs(options: EvaluateArguments, measures: "Sequence[Measure]") -> "Evaluation":
    """Score runs by the measures, followed by those of the plotted curve."""
    from jpr.evaluation.evaluation import evaluate
    from jpr.evaluation.plots import curve_measures
    from jpr.formats.runs.align import align
    from jpr.formats.runs.trec import load_qrels

    if not options.paths:
        raise ConfigError("no run is given; try: jpr evaluate --example")
    qrels = load_qrels(options.qrels) if options.qrels else []
    questions = _questions(options.questions, qrels)
    pool = [options.pool] if options.pool else []
    loaded = _rankings([*options.paths, *pool], options.corpus)
    if options.plots and not qrels:
        longest = max((len(r.hits) for path in options.paths for r in loaded[path]), default=1)
        measures = [*measures, *(m for m in curve_measures(longest) if m not in measures)]
    with (
        output.warnings_as_notes(),
        _naming_files(loaded, partial(align, questions)),
        output.progress("searching answers", len(questions)) as progress,
    ):
        return evaluate(
            questions,
            {str(path): loaded[path] for path in options.paths},
            measures,
            pool=loaded[options.pool] if options.pool else [],
            qrels=qrels,
            strict=options.strict,
            workers=output.cpu_count(),
            cache=cache_folder(),
            progress=progress,
        )


def _score_answers(options: EvaluateArguments) -> "Evaluation":
    from jpr.evaluation.evaluation import evaluate_answers
    from jpr.formats.runs.align import align_predictions
    from jpr.formats.runs.predictions import load_predictions

    measures = _answer_measures(options.measure)
    questions = _questions(options.questions, [])
    systems = {path: load_predictions(path) for path in options.paths}
    with _naming_files(systems, partial(align_predictions, questions)):
        return evaluate_answers(
            questions, {str(path): systems[path] for path in options.paths}, measures
        )


@contextmanager
def _naming_files(files: Mapping[Path, T], align: Callable[[T], object]) -> Iterator[None]:
    """On an error about records, find the file they are in and name it."""
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
        raise ConfigError("give the questions: --questions FILE")
    return [Question(id, "") for id in dict.fromkeys(j.question_id for j in qrels)]


def _rankings(paths: Iterable[Path], corpus: Path | None) -> "dict[Path, list[Ranking]]":
    """Read runs, and in one pass over the corpus the texts that they lack."""
    from jpr.formats.runs import load_rankings
    from jpr.formats.runs.align import fill_texts, texts_for

    runs = {path: load_rankings(path) for path in paths}
    if corpus is None:
        return runs
    with output.progress("reading passages", None) as progress:
        passages = output.counted(read_corpus(corpus), progress)
        texts = texts_for(chain.from_iterable(runs.values()), passages)
    for path in runs:
        with naming(path):
            runs[path] = fill_texts(runs[path], texts.values())
    return runs


def _note_oddities(evaluation: "Evaluation", kind: str) -> None:
    if evaluation.without_answers:
        output.note(f"{len(evaluation.without_answers)} questions without answers are left out")
    for run in evaluation.runs:
        if run.missing:
            output.note(f"{run.name}: {len(run.missing)} questions are missing and score 0")
        if run.unknown:
            output.note(f"{run.name}: {len(run.unknown)} {kind} are for other questions; ignored")
        if run.differing:
            output.note(
                f"{run.name}: {len(run.differing)} {kind} have a different question text under "
                f"the same id, e.g. {run.differing[0]!r}"
            )
        if run.bare:
            output.note(f"{run.name}: {run.bare} passages have no text; no answer is found there")
        if run.flat:
            output.note(
                f"{run.name}: {run.flat} rankings have mostly equal scores; ties are ordered by "
                "descending passage id, as in trec_eval"
            )


def _print(evaluation: "Evaluation", options: EvaluateArguments) -> None:
    from jpr.evaluation import tables
    from jpr.evaluation.compare import compare

    compared = compare(evaluation, str(options.baseline)) if options.baseline else []
    if options.json:
        output.write_json(tables.as_json(evaluation, compared))
        return
    format = {"markdown": tables.markdown, "latex": tables.latex}.get(options.table)
    both = [(tables.HEADER, tables.rows(evaluation))]
    if compared:
        both.append((tables.COMPARED, tables.compared_rows(evaluation, compared)))
    for header, rows in both:
        if format:
            output.write(format(header, rows))
        else:
            output.table(header, rows)
        output.write("")


def _plot(evaluation: "Evaluation", folder: Path) -> None:
    from jpr.evaluation.plots import has_curve, main_measure, plot_by_answers, plot_curve

    plot_by_answers(evaluation, main_measure(evaluation), folder / "by-answers.svg")
    if has_curve(evaluation):
        plot_curve(evaluation, folder / "curve.svg")
    output.note(f"wrote the plots to {folder}")
