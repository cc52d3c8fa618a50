"""`jpr rerank`."""

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from jpr.cli import output
from jpr.cli.arguments import Corpus, Out, Questions, Settings, Workers, argument, option
from jpr.cli.checks import check_out, reject
from jpr.cli.files import read_run
from jpr.cli.workers import spread
from jpr.errors import ConfigError
from jpr.rerank.methods import (
    JOINT,
    METHODS,
    Method,
    RerankOptions,
    make_reranker,
    open_reranker,
)

if TYPE_CHECKING:
    from jpr.rerank.joint import JointReranker


@dataclass(frozen=True, kw_only=True)
class RerankArguments:
    """What `jpr rerank` takes."""

    source: Annotated[Path, argument("Run: file of rankings.", "RUN")]
    out: Out
    k: Annotated[
        str | None,
        option(
            "Output", "Number of passages per question; joint: or auto.", "-k", show_default="5"
        ),
    ] = None
    method: Annotated[str, option("Model", f"One of {', '.join(METHODS)}.")] = JOINT
    model: Annotated[
        Path | None,
        option("Model", "joint, pointwise: folder of a model.", show_default="bundled"),
    ] = None
    set: Settings = None
    trees: Annotated[
        Path | None, option("Output", "joint: write the search trees here (JSON lines).")
    ] = None
    questions: Questions = None
    corpus: Corpus = None
    workers: Workers = None

    def __post_init__(self) -> None:
        check_out(self.out, self.source, self.corpus, self.questions)
        if self.method not in METHODS:
            raise ConfigError(f"--method {self.method}: choose one of {', '.join(METHODS)}")
        is_number = self.k is not None and self.k.isdecimal() and int(self.k) > 0
        if self.k not in (None, "auto") and not is_number:
            raise ConfigError(f"-k {self.k}: must be at least 1, or auto")
        given = {
            "--model": not self.by.takes_model and self.model,
            "--trees": not self.by.decodes and self.trees,
            "-k auto": not self.by.decodes and self.k == "auto",
        }
        reject(f"has no effect with --method {self.method}; remove it", given)

    @property
    def by(self) -> Method:
        """The method."""
        return METHODS[self.method]

    @cached_property
    def reranker_options(self) -> RerankOptions:
        """What determines the reranker."""
        settings = self.by.settings(self.set or ())
        return RerankOptions(self.method, settings, self.model, auto_k=self.k == "auto")


def run(options: RerankArguments) -> None:
    """Choose k passages for each question of a run.

    Writes a run (ctxs JSON lines). An interrupted run resumes when the command is run again. With
    --workers the result is the same; workers must find the model under the same path.

    Settings (--set) of joint: decoder (tree, sets, seq, beam, independent), beta (tree, sets: a
    larger β gives a wider tree), budget (total tokens of the chosen passages; -k is then the
    maximum), answers (false: ignore the answers that passages add), lambda (weight of a passage's
    own probability, 0 by default). Of mmr, dpp, msd, cover and ssd: lambda (1 is relevance alone,
    0 is diversity alone), encoder (folder).

    Example: jpr rerank bm25.jsonl --out joint.jsonl -k 5 --trees trees.jsonl

    Example: jpr rerank bm25.jsonl --out wide.jsonl --set decoder=tree --set beta=4

    Example: jpr rerank bm25.jsonl --out mmr.jsonl --method mmr --set lambda=0.9

    Example: jpr rerank bm25.trec --out oracle.jsonl --method oracle -q dev.jsonl --corpus p.tsv
    """
    from jpr.io.cluster import StageSpec
    from jpr.rerank.batch import rerank_to_file

    by, described = options.by, options.reranker_options
    budget: int | None = getattr(described.settings, "budget", None) if by.decodes else None
    decoding = _joint(described) if by.decodes else None
    reranker = decoding or make_reranker(described)
    k = _count(options.k, budget, decoding)
    rankings = read_run(
        options.source,
        options.corpus,
        options.questions,
        needs_texts=by.needs_texts,
        needs_answers=by.needs_answers,
    )
    name = str(options.model or "the bundled model")
    opening = StageSpec(open_reranker, (described.for_worker(),), reranker.key, name)
    with (
        spread(options.workers, opening) as on,
        output.progress("reranking", len(rankings)) as progress,
    ):
        rerank_to_file(reranker, rankings, options.out, k, progress, on, trees=options.trees)
    output.note(f"wrote {len(rankings):,} rankings to {options.out}")
    if budget is not None:
        _note_empty(options.out, budget)


def _joint(described: RerankOptions) -> "JointReranker":
    from jpr.rerank.joint import make

    return make(described.settings, described)


def _count(k: str | None, budget: int | None, joint: "JointReranker | None") -> int:
    """Return the maximum number of passages per question."""
    if k is None:
        return 5 if budget is None else sys.maxsize
    if k == "auto":
        assert joint is not None
        return joint.max_k
    return int(k)


def _note_empty(out: Path, budget: int) -> None:
    """Note for how many questions no passage fits the budget."""
    from jpr.formats.runs import load_rankings

    empty = sum(not ranking.hits for ranking in load_rankings(out))
    if empty:
        output.note(f"no passage fits budget={budget} for {empty:,} questions; increase it")
