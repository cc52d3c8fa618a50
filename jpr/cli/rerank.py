"""`jpr rerank`: of each question's candidates, the k that serve best together."""

import sys
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.convert import fill_in
from jpr.cli.inputs import CorpusOption, QuestionsOption, naming, refuse_own, refuse_useless
from jpr.cli.processes import Processes, Scheduler, Workers
from jpr.errors import ConfigError, DataError
from jpr.rerank.methods import (
    JOINT,
    METHODS,
    Method,
    RerankOptions,
    make_reranker,
    open_reranker,
)

if TYPE_CHECKING:
    from jpr.rerank.batch import DecodingReranker
    from jpr.types import Ranking

NAME = "rerank"
HELP = """Choose k passages for each question of a run. They are written as a run, too (ctxs).

A run that was interrupted goes on where it was when the same command is given again. With
--workers or --scheduler, Dask shares the work out, and the result is the same; workers must find
the model under the same path.

Example: jpr rerank bm25.jsonl --out joint.jsonl -k 5 --trees trees.jsonl

Example: jpr rerank bm25.jsonl --out joint.jsonl -k 5 --workers 8

Example: jpr rerank bm25.jsonl --out mmr.jsonl --method mmr --lambda 0.9

Example: jpr rerank bm25.trec --out best.jsonl --method oracle --questions dev.jsonl --corpus p.tsv
"""
DECODERS = ("tree", "sets", "seq", "beam", "independent")
_TREES = DECODERS[:2]
_DIVERSE = ("--lambda", "--encoder")
_USES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(METHODS, ()),
    JOINT: ("--model", "--decode", "--beta", "--trees", "--budget", "--answers", "--lambda"),
    "pointwise": ("--model",),
    **dict.fromkeys(("mmr", "dpp", "msd", "cover", "ssd"), _DIVERSE),
}


def run(
    source: Annotated[Path, typer.Argument(metavar="RUN", help="File of rankings.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of rankings to write.")],
    k: Annotated[
        str | None,
        typer.Option("-k", help="Passages for each question; joint: or auto.  [default: 5]"),
    ] = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = JOINT,
    model: Annotated[
        Path | None,
        typer.Option(help="joint, pointwise: folder of a model; for joint, ours by default."),
    ] = None,
    decode: Annotated[
        str | None, typer.Option(help=f"joint: {', '.join(DECODERS)}; by default the model's own.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="tree, sets: larger is wider; by default the model's own.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="joint: tokens the passages may have together; then -k, if any, is the most."
        ),
    ] = None,
    answers: Annotated[
        bool | None,
        typer.Option("--answers/--no-answers", help="joint: choose for the answers passages add."),
    ] = None,
    trees: Annotated[
        Path | None, typer.Option(help="joint: file to say in how passages were chosen.")
    ] = None,
    relevance: Annotated[
        float | None,
        typer.Option(
            "--lambda",
            help="mmr, dpp …: 1 is relevance alone, 0 diversity alone. joint: how much it counts, "
            "besides the answers a passage adds, that it tells one.  [default: 0]",
        ),
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option(help="mmr, dpp …: folder of an encoder; without, ours.")
    ] = None,
    questions: QuestionsOption = None,
    corpus: CorpusOption = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Rerank question by question."""
    from jpr.io.cluster import StageSpec
    from jpr.rerank.batch import rerank_to_file, rerank_with_trees

    processes = Processes(workers, scheduler)
    refuse_own(out, source, corpus, questions)
    count = _count(k, budget)
    _check(decode, beta, answers)
    given = {
        "--model": model,
        "--decode": decode,
        "--beta": beta,
        "--trees": trees,
        "--budget": budget,
        "--answers": answers,
        "--lambda": relevance,
        "--encoder": encoder,
    }
    refuse_useless("--method", method, given, _USES)
    keys: dict[str, object] = {
        "decoder": decode,
        "beta": beta,
        "budget": budget,
        "lambda": relevance,
    }
    keys |= {"answers": None if answers is None else str(answers).lower(), "encoder": encoder}
    pairs = [f"{key}={value}" for key, value in keys.items() if value is not None]
    settings = METHODS[method].settings(pairs)
    options = RerankOptions(method, settings, model, auto_k=count is None)
    if count is None and not METHODS[method].decodes:
        raise ConfigError(f"-k auto is for --method {JOINT}; give a number")
    decoding = None
    if METHODS[method].decodes:
        decoding, count = _joint(options, count)
    reranker = decoding or make_reranker(options)
    assert count is not None
    rankings = read_run(source, corpus, questions, METHODS[method])
    name = str(model or encoder or "our own model")
    opening = StageSpec(open_reranker, (options.for_worker(),), reranker.key, name)
    with (
        processes.spread(opening) as spread,
        screen.progress("reranking", len(rankings)) as progress,
    ):
        if decoding and trees:
            rerank_with_trees(decoding, rankings, out, trees, count, progress, spread)
        else:
            rerank_to_file(reranker, rankings, out, count, progress, spread)
    screen.note(f"{len(rankings):,} rankings are in {out}")
    if budget is not None:
        _tell_empty(out, budget)


def _tell_empty(out: Path, budget: int) -> None:
    """Say for how many questions nothing fits the budget."""
    from jpr.formats.runs import load_rankings

    empty = sum(not ranking.hits for ranking in load_rankings(out))
    if empty:
        screen.note(f"no passage fits --budget {budget} for {empty:,} of them; give more tokens")


def _count(k: str | None, budget: int | None) -> int | None:
    """Return how many passages were asked for; None where the model is to say."""
    if k is None:
        return 5 if budget is None else sys.maxsize
    if k == "auto":
        return None
    if not k.isdecimal() or int(k) < 1:
        raise ConfigError(f"-k {k}: ask for at least one passage, or for auto")
    return int(k)


def _check(decode: str | None, beta: float | None, answers: bool | None) -> None:
    if decode is not None and decode not in DECODERS:
        raise ConfigError(f"--decode {decode}; choose one of {', '.join(DECODERS)}")
    if beta is not None and decode not in (None, *_TREES):
        raise ConfigError(f"--beta is for --decode {' and '.join(_TREES)}; leave it out")
    if beta is not None and not isfinite(beta):
        raise ConfigError(f"--beta {beta}; give a finite number")
    if answers and decode == "independent":
        raise ConfigError("--answers: --decode independent takes each passage by itself; leave one")


def _joint(options: RerankOptions, k: int | None) -> "tuple[DecodingReranker, int]":
    from jpr.rerank.joint import make

    reranker = make(options.settings, options)
    return reranker, reranker.most if k is None else k


def read_run(
    source: Path, corpus: Path | None, questions: Path | None, method: Method = METHODS[JOINT]
) -> "list[Ranking]":
    """Read the run and refuse, before any work, what the method cannot work with."""
    from jpr.formats.runs import load_rankings
    from jpr.formats.runs.align import check_unique_passages
    from jpr.rerank.oracle import check_answers

    with naming(source):
        rankings = list(fill_in(load_rankings(source), corpus, questions))
        for ranking in rankings:
            check_unique_passages(ranking)
            if method.needs_texts:
                _check_texts(ranking)
            if method.needs_answers:
                check_answers(ranking.question)
    return rankings


def _check_texts(ranking: "Ranking") -> None:
    from jpr.formats.questions import check_lengths

    check_lengths([ranking.question])
    id = ranking.question.id
    if not ranking.question.text.strip():
        raise DataError(f"question {id!r} has no text; give the questions with --questions")
    bare = sum(hit.passage.is_bare for hit in ranking.hits)
    if bare:
        raise DataError(
            f"{bare} of {len(ranking.hits)} passages for question {id!r} are only ids; "
            "give their texts with --corpus"
        )
