import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from jpr.errors import ConfigError, DataError, FormatError
from jpr.retrieve.batch import retrieve_to_file
from jpr.retrieve.index import Bm25Retriever, build_index
from jpr.runs import load_rankings
from jpr.types import Passage, Question, Ranking

WORDS = ["river", "mountain", "castle", "bridge", "forest", "harbour", "market", "tower"]


def passages(count: int, seed: int = 0) -> list[Passage]:
    chance = random.Random(seed)
    return [
        Passage(f"id {i}", f"{chance.choice(WORDS)} {i}", " ".join(chance.choices(WORDS, k=30)))
        for i in range(count)
    ]


def ids(folder: Path, question: str = "castle bridge") -> list[str]:
    ranking = Bm25Retriever(folder).retrieve(Question("q", question), 10)
    return [hit.passage.id for hit in ranking.hits]


def test_an_index_finds_its_passages_with_all_that_was_known_of_them(tmp_path: Path) -> None:
    known = Passage("a b", "Castle", "An old castle.", {"source": "guide"})
    assert build_index([known, Passage("c", "", "Nothing.")], tmp_path, source="test") == 2
    (hit,) = Bm25Retriever(tmp_path).retrieve(Question("q", "castles?"), 5).hits
    assert hit.passage == known
    assert hit.score > 0


def test_a_new_index_replaces_the_old_one(tmp_path: Path) -> None:
    build_index(passages(50), tmp_path, source="first")
    old = Bm25Retriever(tmp_path)
    build_index(passages(60, seed=1), tmp_path, source="second")
    assert Bm25Retriever(tmp_path).manifest["passages"] == 60
    assert old.retrieve(Question("q", "castle"), 3).hits  # who has it open keeps it
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_a_build_that_fails_leaves_the_old_index(tmp_path: Path) -> None:
    build_index(passages(50), tmp_path, source="first")
    before = ids(tmp_path)
    for wrong in ([], [*passages(20), *passages(1)], [Passage("", "", "no id")]):
        with pytest.raises(DataError):
            build_index(wrong, tmp_path, source="second")
        assert ids(tmp_path) == before
        assert not (tmp_path / "v2").exists()


BUILD = """
import sys
from pathlib import Path
from tests.retrieve.test_index import passages
from jpr.retrieve.index import build_index
print("started", flush=True)
build_index(passages(4000, seed=1), Path(sys.argv[1]), source="second")
"""


def killed_build(folder: Path, moment: float) -> None:
    """Start to build an index in a process of its own and kill it."""
    command = [sys.executable, "-c", BUILD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)


def kill_often(folder: Path, kills: int) -> None:
    build_index(passages(50), folder, source="first")
    first = ids(folder)
    build_index(passages(4000, seed=1), folder / "other", source="second")
    second = ids(folder / "other")
    chance = random.Random(7)
    for _ in range(kills):
        killed_build(folder, chance.uniform(0.0, 0.8))
        assert ids(folder) in (first, second)
    build_index(passages(4000, seed=1), folder, source="second")
    assert ids(folder) == second
    assert len([path for path in folder.glob("v*") if path.is_dir()]) == 1


def test_killed_builds_lose_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, kills=5)


@pytest.mark.slow
def test_fifty_killed_builds_lose_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, kills=50)


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    def meanwhile() -> Iterator[Passage]:
        with pytest.raises(ConfigError, match="another process is writing"):
            build_index(passages(1), tmp_path, source="rival")
        yield from passages(5)

    build_index(meanwhile(), tmp_path, source="first")
    assert Bm25Retriever(tmp_path).manifest["source"] == "first"


@pytest.mark.parametrize("damage", ["missing", "short", "manifest", "format", "current"])
def test_a_damaged_index_is_refused(tmp_path: Path, damage: str) -> None:
    build_index(passages(50), tmp_path, source="first")
    manifest = tmp_path / "v1" / "manifest.json"
    frames = tmp_path / "v1" / "store" / "passages.zst"
    if damage == "missing":
        frames.unlink()
    elif damage == "short":
        frames.write_bytes(frames.read_bytes()[:-1])
    elif damage == "manifest":
        manifest.write_text("{")
    elif damage == "format":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    else:
        (tmp_path / "CURRENT").write_text("../elsewhere\n")
    with pytest.raises(FormatError, match=r"build|format 99"):
        Bm25Retriever(tmp_path)


def test_a_folder_without_an_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="jpr index CORPUS"):
        Bm25Retriever(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file: cannot be written"):
        build_index(passages(1), tmp_path / "file", source="x")


QUESTIONS = [Question(str(i), word, ((word,),)) for i, word in enumerate(WORDS)]


class Interrupted:
    """A retriever that stops after some questions, as a killed process would."""

    def __init__(self, retriever: Bm25Retriever, after: int) -> None:
        self.retriever, self.left, self.asked = retriever, after, 0

    def retrieve(self, question: Question, k: int) -> Ranking:
        self.asked += 1
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return self.retriever.retrieve(question, k)

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        return (self.retrieve(question, k) for question in questions)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    build_index(passages(50), tmp_path / "index", source="x")
    retriever = Bm25Retriever(tmp_path / "index")
    retrieve_to_file(retriever, QUESTIONS, tmp_path / "whole.jsonl", 5, key="k")
    out, part = tmp_path / "run.jsonl", tmp_path / ".run.jsonl.part"
    with pytest.raises(KeyboardInterrupt):
        retrieve_to_file(Interrupted(retriever, 3), QUESTIONS, out, 5, key="k")
    assert not out.exists()
    part.write_bytes(part.read_bytes()[:-7])  # the third ranking is torn
    rest = Interrupted(retriever, 99)
    retrieve_to_file(rest, QUESTIONS, out, 5, key="k")
    assert rest.asked == len(QUESTIONS) - 2
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not part.exists()
    assert [r.question for r in load_rankings(out)] == QUESTIONS


def test_what_is_left_of_another_run_is_not_used(tmp_path: Path) -> None:
    build_index(passages(50), tmp_path / "index", source="x")
    retriever = Bm25Retriever(tmp_path / "index")
    out = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        retrieve_to_file(Interrupted(retriever, 3), QUESTIONS, out, 9, key="k")
    again = Interrupted(retriever, 99)
    retrieve_to_file(again, QUESTIONS, out, 5, key="k")
    assert again.asked == len(QUESTIONS)
