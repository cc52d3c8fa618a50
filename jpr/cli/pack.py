"""`jpr pack`."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jpr
from jpr.cli import files, output
from jpr.cli.arguments import Corpus, IndexFolder, Strict, argument, arguments, option
from jpr.errors import ConfigError
from jpr.io.checksums import sha256
from jpr.types import Question

if TYPE_CHECKING:
    from jpr.train.packing import PackSource

Loaded = Mapping[Path, Sequence[Question]]
Sources = tuple[list["PackSource"], dict[str, str]]
"""Sources, and the hashes of their files."""


@arguments
class PackArguments:
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
    from jpr.train.packing import PackSettings, make_pack

    settings = PackSettings(options.k, options.strict)
    loaded = {path: _load(path) for path in options.questions}
    if options.index:
        sources, inputs = _retrieved(loaded, options.index, options.k)
    else:
        sources, inputs = _read(loaded, options.runs or [], options.corpus)
    total = sum(source.count for source in sources)
    with output.warnings_as_notes(), output.progress("packing questions", total) as progress:
        pack = make_pack(
            sources, options.tokenizer, options.out, settings, inputs=inputs, progress=progress
        )
    counts = pack.counts()
    output.note(
        f"wrote {output.count(counts['questions'], 'question')} with "
        f"{counts['candidates']:,} candidates and {counts['passages']:,} passages to {options.out}"
    )


def _load(path: Path) -> list[Question]:
    from jpr.train.sources import has_answers

    loaded = jpr.load_questions(path)
    if without := sum(not has_answers(question) for question in loaded):
        output.note(f"{path}: left out {output.count(without, 'question')} without answers")
    return loaded


def _retrieved(loaded: Loaded, index: Path, k: int) -> Sources:
    from jpr.train.sources import from_retriever

    for path, questions in loaded.items():
        files.check_searchable(path, questions)
    opened = jpr.open_retriever(index)
    sources = [from_retriever(_name(path), q, opened, k) for path, q in loaded.items()]
    return sources, {"retriever": opened.key, **_hashes("questions", loaded)}


def _read(loaded: Loaded, runs: Sequence[Path], corpus: Path | None) -> Sources:
    from jpr.train.sources import survey, texts_of

    surveys = []
    for run, questions in zip(runs, loaded.values(), strict=True):
        with files.naming(run), output.progress(f"reading {run.name}", len(questions)) as progress:
            found = survey(run, questions, progress)
        surveys.append(found)
        if n := found.unknown:
            output.note(f"{run}: left out {output.count(n, 'ranking')} for other questions")
        if n := len(found.missing):
            output.note(f"{run}: {output.count(n, 'question')} without ranking and candidates")
    texts = texts_of(surveys, files.read_corpus(corpus)) if corpus else {}
    sources = [one.source(_name(path), texts) for one, path in zip(surveys, loaded, strict=True)]
    hashes = _hashes("questions", loaded) | _hashes("run", runs)
    return sources, hashes | _hashes("corpus", [corpus] if corpus else [])


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
