"""`jpr pack`."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jpr
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Corpus, IndexFolder, Strict, argument, option
from jpr.errors import ConfigError
from jpr.io.checksums import sha256
from jpr.types import Question

if TYPE_CHECKING:
    from jpr.train.sources import RunSurvey


class PackArguments(Arguments):
    runs: list[Path] | None = argument(
        "Runs, one per --questions and in their order.", "RUN", default=None
    )
    questions: list[Path] = option(
        "Input", "File of questions; repeatable.", "-q", metavar="FILE", default=...
    )
    tokenizer: Path = option("Model", "The model's tokenizer.json, or its folder.", default=...)
    out: Path = option("Output", "Folder of the pack.", "-o", default=...)
    index: IndexFolder = None
    corpus: Corpus = None
    k: int = option("Output", "Number of candidates per question.", default=100)
    strict: Strict = False

    def __post_init__(self) -> None:
        runs = self.runs or []
        if self.index and (runs or self.corpus):
            raise ConfigError("--index retrieves the candidates; remove the runs and --corpus")
        if not self.index and len(runs) != len(self.questions):
            raise ConfigError(
                f"{len(runs)} runs for {len(self.questions)} files of questions; give one run "
                "for each, or --index"
            )
        if len(set(self.questions)) < len(self.questions):
            raise ConfigError("a file of questions is given twice")


def run(options: PackArguments) -> None:
    """Pack questions and candidates into a dataset for training.

    Candidates come from runs, one per file of questions, or are retrieved from an index. An
    interrupted command resumes when it is run again.

    Example: jpr pack bm25.jsonl --questions train.jsonl --tokenizer models/e5 --out packs/train
    Example: jpr pack --index wiki -q nq.jsonl -q webq.jsonl --tokenizer models/e5 --out packs/all
    """
    from jpr.train import packing, sources

    settings = packing.PackSettings(options.k, options.strict)
    load = files.load_searchable if options.index else jpr.load_questions
    loaded = {path: load(path) for path in options.questions}
    for path, questions in loaded.items():
        if without := sum(not sources.has_answers(question) for question in questions):
            output.note(f"{path}: left out {output.count(without, 'question')} without answers")
    if options.index:
        index, k = jpr.open_retriever(options.index), options.k
        found = [sources.from_retriever(_name(path), q, index, k) for path, q in loaded.items()]
        inputs = {"retriever": index.key, **_hashes("questions", loaded)}
    else:
        runs, corpus = options.runs or [], options.corpus
        surveys = [_survey(*one) for one in zip(runs, loaded.values(), strict=True)]
        texts = sources.texts_of(surveys, files.read_corpus(corpus)) if corpus else {}
        found = [one.source(_name(path), texts) for path, one in zip(loaded, surveys, strict=True)]
        inputs = _hashes("questions", loaded) | _hashes("run", runs)
        inputs |= _hashes("corpus", [corpus] if corpus else [])
    total = sum(source.count for source in found)
    with output.warnings_as_notes(), output.progress("packing questions", total) as progress:
        pack = packing.make_pack(
            found, options.tokenizer, options.out, settings, inputs=inputs, progress=progress
        )
    counts = pack.counts()
    output.note(
        f"wrote {output.count(counts['questions'], 'question')} with "
        f"{counts['candidates']:,} candidates and {counts['passages']:,} passages to {options.out}"
    )


def _survey(run: Path, questions: Sequence[Question]) -> "RunSurvey":
    from jpr.train.sources import survey

    with files.naming(run), output.progress(f"reading {run.name}", len(questions)) as progress:
        found = survey(run, questions, progress)
    if n := found.unknown:
        output.note(f"{run}: left out {output.count(n, 'ranking')} for other questions")
    if n := len(found.missing):
        output.note(f"{run}: {output.count(n, 'question')} without ranking and candidates")
    return found


def _name(path: Path) -> str:
    return path.name.partition(".")[0] or path.name


def _hashes(what: str, paths: Iterable[Path]) -> dict[str, str]:
    """Return the hash of each file, or of all files in a folder."""
    found = {}
    for i, path in enumerate(paths, start=1):
        name = f"{what} {i}: {path.name}"
        if path.is_file():
            found[name] = sha256(path)
            continue
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        listed = "".join(f"{file.relative_to(path)} {sha256(file)}\n" for file in inside)
        found[name] = hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()
    return found
