"""Mistakes around indexes, each one sentence; from the command line, with the bundled encoder."""

import fcntl
import json
from pathlib import Path

import pytest

from tests.cli.running import jpr, refused

TEXTS = {
    "1": ("Moon", "The moon shines at night."),
    "2": ("Sun", "The sun shines by day."),
    "3": ("Rain", "Rain falls on the roof."),
}


def corpus(path: Path, ids: list[str]) -> Path:
    path.write_text("".join(f"{id}\t{TEXTS[id][1]}\t{TEXTS[id][0]}\n" for id in ids))
    return path


def questions(path: Path, text: str = "what shines at night?") -> Path:
    path.write_text(json.dumps({"id": "q", "question": text, "answers": [["moon"]]}) + "\n")
    return path


@pytest.fixture
def index(tmp_path: Path) -> Path:
    jpr("index", corpus(tmp_path / "c.tsv", ["1", "2", "3"]), "--out", tmp_path / "index")
    return tmp_path / "index"


def test_vectors_of_other_passages_are_refused(tmp_path: Path) -> None:
    jpr("index", corpus(tmp_path / "c.tsv", ["1", "2", "3"]), "--vectors", tmp_path / "v")
    jpr("index", tmp_path / "c.tsv", "--out", tmp_path / "i", "--vectors", tmp_path / "v")
    for ids, fact in ((["3", "2", "1"], "other passages"), (["1", "2"], "other passages")):
        other = corpus(tmp_path / "other.tsv", ids)
        assert fact in refused("index", other, "-o", tmp_path / "j", "--vectors", tmp_path / "v")
    found = json.loads(jpr("retrieve", tmp_path / "i", "moon", "--retriever", "dense", "--json"))
    assert found["hits"][0]["id"] == "1"


def test_more_than_there_is_can_be_asked_for(index: Path) -> None:
    found = json.loads(jpr("retrieve", index, "moon", "-k", 10**12, "--json"))
    assert len(found["hits"]) == 3


def test_an_empty_question_is_refused(index: Path, tmp_path: Path) -> None:
    assert "question is empty" in refused("retrieve", index, "  ")
    empty = questions(tmp_path / "q.jsonl", " ")
    assert "has no text" in refused("retrieve", index, "-q", empty, "-o", tmp_path / "r.jsonl")


def test_questions_are_not_overwritten(index: Path, tmp_path: Path) -> None:
    asked = questions(tmp_path / "q.jsonl")
    before = asked.read_text()
    assert f"{asked} is also" in refused("retrieve", index, "-q", asked, "-o", asked)
    assert asked.read_text() == before
    assert "is a folder" in refused("retrieve", index, "-q", asked, "-o", tmp_path)


def test_a_second_writer_of_a_run_is_refused(index: Path, tmp_path: Path) -> None:
    with (tmp_path / ".r.jsonl.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fact = refused(
            "retrieve", index, "-q", questions(tmp_path / "q.jsonl"), "-o", tmp_path / "r.jsonl"
        )
    assert "another process is writing" in fact
    assert not (tmp_path / "r.jsonl").exists()


def test_damaged_words_are_reported(index: Path) -> None:
    for file in (index / "v1" / "bm25").glob("*.term"):
        whole = file.read_bytes()
        file.write_bytes(bytes(byte ^ 0xFF for byte in whole))
    assert "again" in refused("retrieve", index, "moon", "--retriever", "bm25")


def test_a_folder_of_a_milvus_index_takes_no_other(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "milvus.json").write_text("{}")
    fact = refused("index", corpus(tmp_path / "c.tsv", ["1"]), "--out", tmp_path / "m")
    assert "holds an index of engine milvus" in fact
