"""`jpr read`, from the command line to the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from jpr.formats.runs import write_rankings
from tests.cli.running import EXAMPLE, fails, jpr
from tests.read.test_generate import write_tiny
from tests.rerank.tiny import NAMES, ranking, write_pointer

RUN = EXAMPLE / "joint.jsonl"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pointer(tmp_path_factory.mktemp("joint"), answers=True)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    with path.open("w", encoding="utf-8") as out:
        write_rankings([ranking(NAMES[i:], str(i)) for i in range(3)], out)
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_answers_come_with_their_passages(run: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    jpr("read", run, "--out", out, "--model", model, "--min-probability", 0.01)
    found = lines(out)
    assert [line["id"] for line in found] == ["0", "1", "2"]
    for line in found:
        for answer in line["answers"]:
            assert set(answer) == {"text", "log_prob", "support"}
            assert answer["support"]


def test_only_so_many_passages_are_read(run: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    jpr("read", run, "--out", out, "--model", model, "--min-probability", 0.001, "-k", 1)
    passages = {
        one["passage"] for line in lines(out) for a in line["answers"] for one in a["support"]
    }
    assert passages == set(NAMES[:3])


def test_a_t5_writes_answers(run: Path, tmp_path: Path) -> None:
    out, t5 = tmp_path / "answers.jsonl", write_tiny(tmp_path / "t5")
    jpr("read", run, "--out", out, "--model", t5, "--set", "beams=2", "--set", "stop-penalty=0.5")
    found = lines(out)
    assert any(line["answers"] for line in found)
    assert all(answer["support"] for line in found for answer in line["answers"])
    jpr("read", run, "--out", out, "--model", t5, "--set", "stop-penalty=20", "--max-answers", 2)
    assert max(len(line["answers"]) for line in lines(out)) == 2


def test_choosing_gives_answers_that_few_passages_contain(
    run: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "answers.jsonl"
    jpr("read", run, "--out", out, "--model", model, "--min-probability", 0.001, "--choose", 2)
    for line in lines(out):
        supports = {one["passage"] for a in line["answers"] for one in a["support"]}
        assert len(supports) <= 2


def test_what_it_writes_is_scored_by_evaluate(tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    run, questions = (tmp_path / name for name in ("run.jsonl", "questions.jsonl"))
    for file, whole in ((run, RUN), (questions, EXAMPLE / "questions.jsonl")):
        file.write_text("".join(whole.read_text(encoding="utf-8").splitlines(True)[:4]))
    jpr("read", run, "--out", out, "-k", 5)
    scored = json.loads(jpr("evaluate", "--answers", out, "-q", questions, "--json"))
    assert scored["runs"][0]["measures"]["AnswerF1"]["all"] > 0.5


def test_mistakes_are_reported(
    run: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def said(*options: object) -> str:
        return fails(capsys, monkeypatch, "read", run, "-o", tmp_path / "a.jsonl", *options)

    assert "--set: needs a T5" in said("--set", "any-text=true")
    assert "--set: needs a T5" in said("--set", "beams=2")
    assert "--min-probability" in said(
        "--model", write_tiny(tmp_path / "t5"), "--min-probability", 0.1
    )
    assert "-k: " in said("--choose", 2, "-k", 2)
    assert "7.0" in said("--model", model, "--min-probability", 7)
    mute = write_pointer(tmp_path / "mute")
    assert "does not read answers" in said("--model", mute)
    bare = tmp_path / "bare.trec"
    bare.write_text("1 Q0 a 1 1.0 x\n", encoding="utf-8")
    message = fails(capsys, monkeypatch, "read", bare, "-o", tmp_path / "a.jsonl")
    assert "give the questions with --questions" in message
    assert not (tmp_path / "a.jsonl").exists()
    assert "https://host/v1" in said("--llm", "")
    assert "--min-probability: " in said("--llm", "http://localhost:1", "--min-probability", 0)
    assert "is a folder" in fails(capsys, monkeypatch, "read", run, "-o", ".", "--model", model)
    before = run.read_bytes()
    message = fails(capsys, monkeypatch, "read", run, "-o", run, "--model", model)
    assert "is also" in message
    assert run.read_bytes() == before
