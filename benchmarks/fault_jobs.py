"""The jobs that benchmarks/faults.py kills: their input, commands and results.

A job runs in a folder of its own, which has all its input and output.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from jpr.errors import FormatError
from jpr.retrieve.index import Index
from jpr.types import Passage
from tests.encode.texts import WORDS, passages
from tests.rerank.tiny import NAMES

RECIPE = """
k = 2
batch = 4
candidates = 4
[model]
weights = "models/to-train"
layers = 1
max_tokens = 128
dropout = 0.1
[[data]]
pack = "models/pack"
[dev]
packs = ["models/pack"]
[loop]
steps = {steps}
save_every = 3
eval_every = 7
log_every = 1
ema_decay = 0.9
"""


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of work."""

    passages: int
    questions: int
    documents: int
    steps: int


FULL, TINY = Size(1500, 100, 20, 30), Size(300, 10, 4, 6)


@dataclass(frozen=True, slots=True)
class Job:
    """Commands that are killed, started again and whose results are compared."""

    name: str
    commands: Sequence[Sequence[str]]
    result: Callable[[Path], object]
    """The result: equal for a run that was killed and one that was not."""
    between: Callable[[Path], object] = lambda _: None
    """What readers see meanwhile: the state before or after a command."""
    done: str = "never said"
    """What a command prints when it is repeated after its work was done."""
    resume: str = ""
    """A file: if it exists, the command gets `--resume`."""


def prepare(folder: Path, size: Size, run: Callable[[Path, Sequence[str]], None]) -> None:
    """Write the input of all jobs, except for the models."""
    many = passages(size.passages + size.passages // 2, seed=1)
    _write(folder / "corpus.jsonl", map(_line, many[: size.passages]))
    _write(folder / "more.jsonl", map(_line, many[size.passages :]))
    _write(folder / "ids.txt", [f"{passage.id}\n" for passage in many[: size.passages : 3]])
    _write(folder / "run.jsonl", map(_ranking, range(size.questions)))
    (folder / "recipe.toml").write_text(RECIPE.format(steps=size.steps), encoding="utf-8")
    run(folder, ["index", "corpus.jsonl", "--out", "base"])
    (folder / "docs").mkdir()
    for number in range(size.documents):
        _document(folder / "docs", number, "first")
    run(folder, ASK)
    for number in range(0, size.documents, 3):
        _document(folder / "docs", number, "second")
    (folder / "docs" / "1.txt").unlink()
    _document(folder / "docs", size.documents, "second")


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")


def _line(passage: Passage) -> str:
    return json.dumps({"id": passage.id, "title": passage.title, "text": passage.text}) + "\n"


def _ranking(number: int) -> str:
    draw = random.Random(number)
    names = draw.sample(NAMES, len(NAMES))
    ctxs = [
        {
            "id": f"{at}",
            "title": name,
            "text": f"{name} which colour {draw.choice(NAMES)}",
            "score": -at,
        }
        for at, name in enumerate(names)
    ]
    return json.dumps({"id": f"q{number}", "question": "which colour ?", "ctxs": ctxs}) + "\n"


def _document(folder: Path, number: int, state: str) -> None:
    draw = random.Random(f"{number} {state}")
    words = " ".join(draw.choices([*WORDS, *NAMES], k=300))
    (folder / f"{number}.txt").write_text(f"{state} {words}.\n", encoding="utf-8")


def found(folder: Path) -> object:
    """Return what an index contains and finds; None without an index."""
    if not (folder / "CURRENT").exists():
        return None
    index = Index(folder)
    words = [index.search_bm25(word, 20) for word in WORDS]
    vectors = np.random.default_rng(0).normal(size=(5, 32)).astype(np.float32)
    near = index.search_dense(vectors, 20)
    by_id = [
        [(index.store[row].id, round(score, 5)) for row, score in hits] for hits in (*words, *near)
    ]
    texts = sorted(repr((one.id, one.title, one.text)) for one in index.store)
    return hashlib.sha256(repr((texts, sorted(map(repr, by_id)))).encode()).hexdigest()


def _cached(home: Path) -> object:
    """Return the contents of the cache of documents, and the number of passages of a reply.

    Scores depend on whether the index was updated or rebuilt: removed words count until then.
    """
    (own,) = (home / "cache" / "jpr" / "documents").iterdir()
    noted = json.loads((own / "files.json").read_text(encoding="utf-8"))["files"]
    hashes = {name: values[2:] for name, values in noted.items()}
    texts = sorted(repr((one.id, one.title, one.text)) for one in Index(own / "index").store)
    return texts, hashes, len(json.loads((home / "stdout").read_bytes())["passages"])


def _may_be_asked(home: Path) -> object:
    """Open the cache, which must never be damaged."""
    for own in (home / "cache" / "jpr" / "documents").iterdir():
        try:
            Index(own / "index")
        except FormatError as error:
            raise AssertionError(f"the cache is damaged: {error}") from error
    return None


def digests(folder: Path) -> dict[str, str]:
    """Return the hashes of all files below a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def _trained(home: Path) -> object:
    """Return weights, state and log, without times."""
    out = home / "out"
    own = {name: digest for name, digest in digests(out).items() if name in _MODEL}
    state = {
        name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
        for name, tensor in sorted(load_file(out / "state.safetensors").items())
    }
    lines = map(json.loads, (out / "log.jsonl").read_text(encoding="utf-8").splitlines())
    log = [{name: value for name, value in line.items() if name not in _TIMES} for line in lines]
    return own, state, log


_MODEL = ("model.safetensors", "joint.json", "tokenizer.json", "config.json", "recipe.json")
_TIMES = ("seconds", "tokens_per_second")
ASK = ["ask", "which colour river ?", "--docs", "docs", "--json"]
_ADD = ["index", "more.jsonl", "--add", "--out", "base"]
_REMOVE = ["index", "--remove", "ids.txt", "--out", "base"]
JOBS = [
    Job(
        "index build",
        [["index", "corpus.jsonl", "--out", "index"]],
        lambda home: found(home / "index"),
        lambda home: found(home / "index"),
    ),
    Job(
        "index update",
        [_ADD, _REMOVE],
        lambda home: found(home / "base"),
        lambda home: found(home / "base"),
        done="in the index",
    ),
    Job(
        "encode",
        [["index", "corpus.jsonl", "--vectors", "vectors"]],
        lambda home: digests(home / "vectors"),
    ),
    Job("train", [["train", "recipe.toml", "--out", "out"]], _trained, resume="out/recipe.json"),
    Job(
        "rerank",
        [["rerank", "run.jsonl", "--out", "joint.jsonl", "-k", "4", "--trees", "trees.jsonl"]],
        lambda home: [(home / name).read_bytes() for name in ("joint.jsonl", "trees.jsonl")],
    ),
    Job(
        "read",
        [["read", "run.jsonl", "--out", "answers.jsonl.gz"]],
        lambda home: (home / "answers.jsonl.gz").read_bytes(),
    ),
    Job("ask --docs", [ASK], _cached, _may_be_asked),
]
