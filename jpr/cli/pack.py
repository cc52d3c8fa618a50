"""`jpr pack`: questions, candidates and coverage as what a trainer reads."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.corpora import read_corpus
from jpr.cli.inputs import naming
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.train.packing import PackSource
    from jpr.train.sources import RunSurvey
    from jpr.types import Passage, Question

NAME = "pack"
HELP = """Turn questions and candidates into a pack for training.

Candidates are those of runs, one for each file of questions and in their order, or are retrieved
from an index. A pack that was interrupted goes on where it was when the same command is given
again.

Example: jpr pack bm25.jsonl --questions train.jsonl --tokenizer tokenizer.json --out packs/train

Example: jpr pack --index wiki -q nq.jsonl -q webq.jsonl --tokenizer models/minilm --out packs/all
"""
Sources = tuple[list["PackSource"], dict[str, str]]
"""Sources, and the hashes of what they come from."""


def run(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Files of rankings, one for each --questions."),
    ] = None,
    *,
    questions: Annotated[
        list[Path], typer.Option("--questions", "-q", help="File of questions; may be repeated.")
    ],
    tokenizer: Annotated[
        Path, typer.Option(help="tokenizer.json of the model, or the folder that holds it.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the pack to write.")],
    index: Annotated[
        Path | None, typer.Option(help="Folder that `jpr index` made, to retrieve from.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Passages, if runs hold only their ids.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many candidates for each question.")] = 100,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Do not count a lone numeral or stop word as an answer."),
    ] = False,
) -> None:
    """Pack batch by batch."""
    from jpr.train.packing import PackSettings, make_pack

    settings = PackSettings(k, strict)
    _check(runs or [], questions, index, corpus)
    asked = {path: _load(path) for path in questions}
    sources, inputs = _retrieved(asked, index, k) if index else _read(asked, runs or [], corpus)
    total = sum(source.count for source in sources)
    with screen.warnings_as_notes(), screen.progress("packing questions", total) as progress:
        pack = make_pack(sources, tokenizer, out, settings, inputs=inputs, progress=progress)
    counts = pack.counts()
    screen.note(
        f"{counts['questions']:,} questions with {counts['candidates']:,} candidates of "
        f"{counts['passages']:,} passages are in {out}"
    )


def _check(
    runs: Sequence[Path], questions: Sequence[Path], index: Path | None, corpus: Path | None
) -> None:
    if index and (runs or corpus):
        raise ConfigError("--index retrieves candidates itself; leave out runs and --corpus")
    if not index and len(runs) != len(questions):
        raise ConfigError(
            f"{len(runs)} runs for {len(questions)} files of questions; give one for each, "
            "or --index to retrieve from"
        )
    if len(set(questions)) < len(questions):
        raise ConfigError("a file of questions is given twice; name each once")


def _load(path: Path) -> "list[Question]":
    from jpr.formats.questions import load_questions
    from jpr.train.sources import has_answers

    asked = load_questions(path)
    without = sum(not has_answers(question) for question in asked)
    if without:
        screen.note(f"{path}: {without} questions have no answer and are left out")
    return asked


def _retrieved(asked: "Mapping[Path, Sequence[Question]]", index: Path, k: int) -> Sources:
    from jpr.formats.questions import check_lengths
    from jpr.retrieve.retrievers import open_retriever
    from jpr.train.sources import from_retriever

    for path, questions in asked.items():
        empty = next((q.id for q in questions if not q.text.strip()), None)
        if empty is not None:
            raise DataError(f"{path}: question {empty!r} has no text to search for")
        with naming(path):
            check_lengths(questions)
    opened = open_retriever(index)
    sources = [from_retriever(_name(path), q, opened, k) for path, q in asked.items()]
    return sources, {"retriever": opened.key, **_hashes("questions", asked)}


def _read(
    asked: "Mapping[Path, Sequence[Question]]", runs: Sequence[Path], corpus: Path | None
) -> Sources:
    from jpr.train.sources import survey

    surveys = []
    for run, questions in zip(runs, asked.values(), strict=True):
        with naming(run), screen.progress(f"reading {run.name}", len(questions)) as progress:
            surveys.append(survey(run, questions, progress))
        _tell_what_is_odd(surveys[-1])
    texts = _texts(surveys, corpus) if corpus else {}
    sources = [known.source(_name(path), texts) for known, path in zip(surveys, asked, strict=True)]
    hashes = {**_hashes("questions", asked), **_hashes("run", runs)}
    return sources, {**hashes, **(_hashes("corpus", [corpus]) if corpus else {})}


def _tell_what_is_odd(known: "RunSurvey") -> None:
    if known.unknown:
        screen.note(f"{known.run}: {known.unknown} rankings are for other questions; left out")
    if known.missing:
        screen.note(f"{known.run}: {len(known.missing)} questions are missing, without candidates")


def _texts(surveys: "Sequence[RunSurvey]", corpus: Path) -> "Mapping[str, Passage]":
    from jpr.train.sources import texts_of

    with screen.progress("reading passages", None) as progress:
        return texts_of(surveys, screen.counted(read_corpus(corpus), progress))


def _name(path: Path) -> str:
    """Name a source by its file, without what says how that is written."""
    return path.name.partition(".")[0] or path.name


def _hashes(what: str, paths: Iterable[Path]) -> dict[str, str]:
    return {f"{what} {i}: {path.name}": _hash(path) for i, path in enumerate(paths, start=1)}


def _hash(path: Path) -> str:
    """Return the hash of a file, or of all files of a folder."""
    import hashlib

    from jpr.io.checksums import sha256

    if path.is_file():
        return sha256(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listed = "".join(f"{file.relative_to(path)} {sha256(file)}\n" for file in files)
    return hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()
