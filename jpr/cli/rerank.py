"""`jpr rerank`."""

import sys
from pathlib import Path

import jpr
from jpr.batch import rerank_to_file
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Corpus, Out, Questions, Settings, Workers, argument, option
from jpr.errors import ConfigError
from jpr.io.cluster import StageSpec, open_runner
from jpr.rerank.methods import JOINT, METHODS, RerankOptions, make_reranker


class RerankArguments(Arguments):
    source: Path = argument("Run: file of rankings.", "RUN")
    out: Out
    k: str | None = option(
        "Output", "Passages per question, or auto (joint only).", show_default="5 without a budget"
    )
    method: str = option("Model", f"One of {', '.join(METHODS)}.", default=JOINT)
    model: Path | None = option(
        "Model", "Folder of a model: pointwise needs one.", show_default="joint: bundled"
    )
    set: Settings = None
    trees: Path | None = option("Output", "joint: write the search trees here (JSON lines).")
    questions: Questions = None
    corpus: Corpus = None
    workers: Workers = None

    def __post_init__(self) -> None:
        self.check_separate("out", "source", "corpus", "questions")
        self.check_separate("trees", "out", "source", "corpus", "questions")
        self.check_choice("method", METHODS)
        is_number = self.k is not None and self.k.isdecimal() and int(self.k) > 0
        if self.k not in (None, "auto") and not is_number:
            raise ConfigError(f"-k {self.k}: give a whole number of 1 or more, or auto")
        by, why = METHODS[self.method], f"has no effect with --method {self.method}; remove it"
        if not by.takes_model:
            self.reject(why, "model")
        if not by.decodes:
            self.reject(why, "trees")
            if self.k == "auto":
                raise ConfigError(f"-k auto: {why}")


def run(options: RerankArguments) -> None:
    """Choose k passages for each question of a run.

    Writes a run (ctxs JSON lines). An interrupted run resumes when the command is run again.

    Settings (--set) of joint: decoder (tree, sets, seq, beam, independent), beta (tree, sets: a
    larger β gives a wider tree), budget (total tokens of the chosen passages; -k is then the
    maximum), trust (1; 0 keeps the order of the run), conditioning (learned; coverage: by the
    answers that passages add; none: by the decoder alone), lambda (added to the weight of a
    passage's own probability, 0). Of mmr, dpp, msd, cover and ssd: lambda (1 is relevance alone, 0
    is diversity alone), encoder (folder).

    Example: jpr rerank bm25.jsonl --out joint.jsonl -k 5 --trees trees.jsonl
    Example: jpr rerank bm25.jsonl --out wide.jsonl --set decoder=tree --set beta=4
    Example: jpr rerank bm25.jsonl --out mmr.jsonl --method mmr --set lambda=0.9
    Example: jpr rerank bm25.trec --out oracle.jsonl --method oracle -q dev.jsonl --corpus p.tsv
    """
    by = METHODS[options.method]
    settings = by.settings(options.set or ())
    described = RerankOptions(options.method, settings, options.model, auto_k=options.k == "auto")
    reranker = make_reranker(described)
    budget: int | None = settings.budget if by.decodes else None
    if options.k == "auto":
        assert isinstance(reranker, jpr.JointReranker)
        k = reranker.max_k
    elif options.k is None:
        k = 5 if budget is None else sys.maxsize
    else:
        k = int(options.k)
    texts, answers = by.needs_texts, by.needs_answers
    rankings = files.read_run(
        options.source, options.corpus, options.questions, needs_texts=texts, needs_answers=answers
    )
    name, n = str(options.model or "the bundled model"), len(rankings)
    spec = StageSpec(make_reranker, (described.for_worker(),), reranker.key, name)
    with (
        output.warnings_as_notes(),
        open_runner(options.workers, spec) as on,
        output.progress("reranking", n) as progress,
    ):
        rerank_to_file(reranker, rankings, options.out, k, progress, on, trees=options.trees)
    output.note(f"wrote {output.count(n, 'ranking')} to {options.out}")
    if budget is not None:
        empty = sum(not ranking.hits for ranking in jpr.load_rankings(options.out))
        if empty:
            output.note(f"no passage fits budget={budget} for {output.count(empty, 'question')}")
