"""`jpr evaluate`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import jpr
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Corpus, Json, Strict, argument, option
from jpr.errors import ConfigError
from jpr.formats.runs.align import align, align_predictions, fill_texts, texts_for
from jpr.io.locks import cache_folder
from jpr.types import Question, Ranking

if TYPE_CHECKING:
    from jpr.evaluation.evaluation import Evaluation

DEFAULT = ("MRecall@5", "MRecall@10", "alpha_nDCG(0.9)@5", "alpha_nDCG(0.9)@10")
DEFAULT_BY_IDS = ("MRecall_clusters@5", "MRecall_clusters@10", *DEFAULT[2:])
_ANSWER_MEASURES = {measure.name: measure for measure in (jpr.AnswerF1, jpr.EM)}
_TIES = "have mostly equal scores; ties are ordered by descending passage id, as in trec_eval"
STYLES = ("terminal", "markdown", "latex")
_EXAMPLE = Path(__file__).parent.parent / "assets" / "example"


class EvaluateArguments(Arguments):
    runs: list[Path] | None = argument("Runs: files of rankings.", "RUN", default=None)
    questions: Path | None = option("Input", "File of questions with answers.", "-q")
    measure: list[str] | None = option(
        "Output", "For example MRecall@5, alpha_nDCG(0.9)@10; repeatable.", "-m", metavar="MEASURE"
    )
    baseline: Path | None = option("Input", "Run to compare the others with, by paired tests.")
    corpus: Corpus = None
    qrels: Path | None = option("Input", "Judge by ids: question, subtopic, passage, relevance.")
    pool: Path | None = option("Input", "Run whose passages the ideal of α-nDCG may also use.")
    answers: list[Path] | None = option(
        "Input", "File of answers, scored by AnswerF1 and EM; repeatable.", metavar="FILE"
    )
    strict: Strict = False
    plots: Path | None = option("Output", "Folder for plots (needs the plot extra).")
    json: Json = False
    table: str = option("Output", f"Table format: {', '.join(STYLES)}.", default=STYLES[0])
    example: bool = option("Input", "Evaluate the bundled example.", default=False)

    def __post_init__(self) -> None:
        for_runs = ("runs", "corpus", "qrels", "pool")
        if self.example:
            why = "--example uses the bundled files; remove these"
            self.reject(why, *for_runs, "questions", "baseline", "answers")
        if self.answers:
            why = "has no effect with --answers; remove it"
            self.reject(why, *for_runs, "strict", "plots")
        if not self.example and not self.paths:
            raise ConfigError("no run is given; try: jpr evaluate --example")
        if not self.example and self.questions is None and self.qrels is None:
            raise ConfigError("give the questions: --questions FILE")
        self.check_choice("table", STYLES)
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
            measure=options.measure or ["Recall@5", "MRecall@5", "alpha_nDCG(0.9)@5"],
        )
    if options.answers:
        evaluation = shown = _score_answers(options)
    else:
        names = options.measure or (DEFAULT_BY_IDS if options.qrels else DEFAULT)
        evaluation = _score_runs(options, names)
        shown = evaluation.first(len(names))
    _note_oddities(shown, "answers" if options.answers else "rankings")
    _print(shown, options)
    if options.plots is not None:
        from jpr.evaluation.plots import plot_evaluation

        plot_evaluation(evaluation, options.plots)
        output.note(f"wrote the plots to {options.plots}")


def _score_runs(options: EvaluateArguments, names: Sequence[str]) -> "Evaluation":
    """Score runs by the named measures, followed by those of the plotted curve."""
    from jpr.evaluation.measures import parse_measure
    from jpr.evaluation.plots import curve_measures
    from jpr.io.manifest import usable_cores

    for name in names:
        if name in _ANSWER_MEASURES:
            raise ConfigError(f"{name} scores answers; give them with --answers FILE")
    measures = [parse_measure(name) for name in names]
    qrels = jpr.load_qrels(options.qrels) if options.qrels else []
    if options.questions is None:
        questions = [Question(id, "") for id in dict.fromkeys(one.question_id for one in qrels)]
    else:
        questions = jpr.load_questions(options.questions)
    pool = [options.pool] if options.pool else []
    loaded = _read_runs([*options.paths, *pool], options.corpus, questions)
    if options.plots and not qrels:
        longest = max((len(r.hits) for path in options.paths for r in loaded[path]), default=1)
        measures += [one for one in curve_measures(longest) if one not in measures]
    n = len(questions)
    with output.warnings_as_notes(), output.progress("searching answers", n) as progress:
        return jpr.evaluate(
            questions,
            {str(path): loaded[path] for path in options.paths},
            measures,
            pool=loaded[options.pool] if options.pool else [],
            qrels=qrels,
            strict=options.strict,
            workers=usable_cores(),
            cache=cache_folder(),
            progress=progress,
        )


def _score_answers(options: EvaluateArguments) -> "Evaluation":
    names = list(dict.fromkeys(options.measure or _ANSWER_MEASURES))
    for name in names:
        if name not in _ANSWER_MEASURES:
            known = " or ".join(_ANSWER_MEASURES)
            raise ConfigError(f"{name!r} does not score answers; choose {known}")
    assert options.questions
    questions = jpr.load_questions(options.questions)
    systems = {}
    for path in options.paths:
        systems[str(path)] = predictions = jpr.load_predictions(path)
        with files.naming(path):
            align_predictions(questions, predictions)
    return jpr.evaluate_answers(questions, systems, [_ANSWER_MEASURES[name] for name in names])


def _read_runs(
    paths: Iterable[Path], corpus: Path | None, questions: Sequence[Question]
) -> dict[Path, list[Ranking]]:
    """Read runs, with the texts that they lack; reject one that does not match the questions."""
    runs, texts = {path: jpr.load_rankings(path) for path in paths}, {}
    if corpus is not None:  # one pass for all runs
        texts = texts_for(chain.from_iterable(runs.values()), files.read_corpus(corpus))
    for path in runs:
        with files.naming(path):
            if corpus is not None:
                runs[path] = fill_texts(runs[path], texts.values())
            align(questions, runs[path])
    return runs


def _note_oddities(evaluation: "Evaluation", kind: str) -> None:
    if n := len(evaluation.without_answers):
        output.note(f"left out {output.count(n, 'question')} without answers")
    for run in evaluation.runs:
        example = next(iter(run.differing), "")
        differ = f"have a different question text under the same id, e.g. {example!r}"
        problems = {
            "questions are missing and score 0": len(run.missing),
            f"{kind} are for other questions; ignored": len(run.unknown),
            f"{kind} {differ}": len(run.differing),
            "passages have no text; no answer is found there": run.bare,
            f"rankings {_TIES}": run.flat,
        }
        for problem, count in problems.items():
            if count:
                output.note(f"{run.name}: {count} {problem}")


def _print(evaluation: "Evaluation", options: EvaluateArguments) -> None:
    from jpr.evaluation import tables

    compared = jpr.compare(evaluation, str(options.baseline)) if options.baseline else []
    if options.json:
        output.write_json(tables.as_json(evaluation, compared))
        return
    styles = {"markdown": tables.markdown, "latex": tables.latex}
    table = styles.get(options.table, output.table)
    output.write(tables.as_text(evaluation, compared, table) + "\n")
