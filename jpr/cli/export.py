"""`jpr export`."""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path

import jpr
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Corpus, Questions, Settings, argument, option
from jpr.errors import ConfigError, DataError
from jpr.io.atomic import publish_folder
from jpr.io.settings import below, not_one_of, parse_settings, reject
from jpr.types import Ranking

PRECISIONS = ("int8", "fp32")
_TEXTS = 256  # questions, and passages, in the sample of an encoder
_MODEL_FILES = ("joint.json", "encoder.json", "config.json")


@dataclass(frozen=True)
class ExportSettings:
    """What `jpr export --set` takes; the help of `run` says what the keys mean."""

    precision: str = "int8"
    prior: float | None = None  # None is the trained one
    keep: float = 0.95
    k: int = 10
    decoder: str | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        problems = [*not_one_of(self, precision=PRECISIONS), *below(self, 1, "k")]
        if self.prior is not None and not isfinite(self.prior):
            problems.append(f"prior = {self.prior}; give a finite number")
        reject(problems)


class ExportArguments(Arguments):
    model: Path = argument("Folder of a joint model or an encoder.")
    out: Path | None = option("Output", "New folder to write.", "-o")
    sample: Path | None = option("Input", "int8: run with texts, to find scales.", metavar="RUN")
    calibrate: Path | None = option(
        "Input",
        "Find the stopping threshold of -k auto on this run; without --out, in place.",
        metavar="RUN",
    )
    questions: Questions = None
    corpus: Corpus = None
    set: Settings = None

    def __post_init__(self) -> None:
        if not self.model.is_dir():
            raise ConfigError(f"{self.model}: is not a folder; give the folder of a model")
        if self.out is None and self.calibrate is None:
            raise ConfigError("give --out DIR to export, or --calibrate RUN")
        if self.out is None:
            self.reject("needs --out DIR", "sample")
        if self.calibrate is None:
            self.reject("only for --calibrate", "questions", "corpus")
        self._check_model()
        precision, is_int8 = self.settings.precision, self.settings.precision == "int8"
        if self.out is not None and is_int8 and self.sample is None:
            raise ConfigError("precision int8: give --sample RUN, or --set precision=fp32")
        if self.out is not None and not is_int8 and self.sample is not None:
            raise ConfigError(f"precision {precision}: --sample is only for int8")

    def _check_model(self) -> None:
        from jpr.encode.encoder_folder import weight_files
        from jpr.rerank.joint import BUNDLED_MODEL

        if not any(file.name in _MODEL_FILES for file in self.model.rglob("*.json")):
            raise ConfigError(f"{self.model}: not a model: it has no {' or '.join(_MODEL_FILES)}")
        if self.out is None and self.model.resolve() == BUNDLED_MODEL.resolve():
            raise ConfigError(f"{self.model}: is the bundled model; copy it and calibrate the copy")
        if self.out is not None and self.is_joint and not weight_files(self.model):
            raise ConfigError(f"{self.model}: is already in ONNX; export the model it came from")
        if not self.is_joint and (self.settings.prior is not None or self.calibrate is not None):
            raise ConfigError(f"{self.model}: prior and --calibrate are for joint models")

    @property
    def is_joint(self) -> bool:
        """Whether the model is a joint model."""
        return (self.model / "joint.json").exists()

    @cached_property
    def settings(self) -> ExportSettings:
        """The parsed `--set` pairs."""
        return parse_settings(ExportSettings, self.set or ())


def run(options: ExportArguments) -> None:
    """Export a model to ONNX for the CPU, or calibrate -k auto.

    The model is a joint model or an encoder; the export runs without torch. An int8 model is about
    a quarter as large, and faster; its sample is any run with questions and texts like those the
    model will see. --calibrate finds the threshold with the fewest passages that keeps a share of
    the answers in the first k; use development questions, not those you report on.

    Settings (--set): precision (int8, fp32), prior (weight of the first stage's rank; joint models
    with a pointer head); of --calibrate: keep (share of answers, 0.95), k (10), decoder, beta.

    Example: jpr export joint --out joint-cpu --sample bm25.jsonl
    Example: jpr export joint --out joint-onnx --set precision=fp32
    Example: jpr export joint --calibrate dev-run.jsonl --set keep=0.95
    """
    if options.out is not None:
        _export(options, options.out)
    if options.calibrate is not None:
        _calibrate(options, options.calibrate, options.out or options.model)


def _export(options: ExportArguments, out: Path) -> None:
    from jpr.encode.encoder_folder import export_encoder
    from jpr.rerank.save import export_joint, spread

    rankings = _read_sample(options.sample) if options.sample else []
    with publish_folder(out) as folder:
        if options.is_joint:
            export_joint(options.model, folder, rankings, options.settings.prior)
        else:
            passages = [hit.passage for ranking in rankings for hit in ranking.hits]
            questions = [ranking.question.text for ranking in spread(rankings, _TEXTS)]
            export_encoder(options.model, folder, spread(passages, _TEXTS), questions)
    size, precision = files.size_of(out), options.settings.precision
    output.note(f"wrote the model to {out}: {precision}, {size / 1e6:.1f} MB")


def _read_sample(sample: Path) -> list[Ranking]:
    """Read the sample; reject one without texts."""
    with files.naming(sample):
        rankings = [ranking for ranking in jpr.load_rankings(sample) if ranking.hits]
        if not rankings:
            raise DataError("holds no ranking with passages")
        for ranking in rankings:
            question = ranking.question
            if not question.text.strip() or any(hit.passage.is_bare for hit in ranking.hits):
                problem = f"question {question.id!r} or its passages have no texts"
                raise DataError(f"{problem}; add them with jpr convert --questions --corpus")
    return rankings


def _calibrate(options: ExportArguments, run: Path, model: Path) -> None:
    """Decode without a threshold, find it, and write it to the model's folder."""
    from jpr.rerank.decoding import StoppingRule, calibrate, write_stopping_rule

    settings = options.settings
    reranker = jpr.JointReranker.load(model, settings.decoder, settings.beta)
    rankings = files.read_run(run, options.corpus, options.questions, needs_answers=True)
    by, n = reranker.decoding, len(rankings)
    choices = output.counted("decoding", reranker.decode_many(rankings, settings.k), n)
    trees = [choice.nodes for choice in choices]
    threshold, kept, passages = calibrate(trees, jpr.cover(rankings), settings.keep)
    rule = StoppingRule(threshold, settings.k, by.decoder, by.beta, kept, passages, n)
    write_stopping_rule(model / "joint.json", rule)
    output.note(
        f"stopping threshold {threshold:.4f}: {passages:.2f} passages per question instead of "
        f"{settings.k} keep {100 * kept:.1f} % of the answers ({output.count(n, 'question')})"
    )
