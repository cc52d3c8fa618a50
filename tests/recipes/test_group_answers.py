import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from jpr.formats.questions import load_questions
from recipes import group_answers
from recipes.trec import grouping, required, scan


def test_examples_in_docstrings() -> None:
    assert not any(doctest.testmod(module).failed for module in (grouping, required, scan))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JPR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "questions.tsv").write_text("Where is it?\tOslo|Ber+gen\nWho?\tnobody\n")
    (tmp_path / "corpus.tsv").write_text("1\tIt is in Bergen.\tA\n2\tOr in Oslo.\tB\n")
    return tmp_path


def test_questions_are_written_with_their_answers(home: Path) -> None:
    command = [sys.executable, "-m", "recipes.group_answers", "--workers", "2"]
    files: list[str | Path] = [
        home / "questions.tsv",
        home / "corpus.tsv",
        "--out",
        home / "grouped.jsonl",
    ]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=True)
    assert "1 of 2" in done.stderr
    assert "1 dropped: nothing" in done.stderr
    (kept,) = load_questions(home / "grouped.jsonl")
    assert kept.answers == (("bergen",), ("oslo",))
    assert list((home / "cache").rglob("*.jsonl"))


def test_mistakes_are_explained(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "questions.tsv").write_text("Where is it?\t(Oslo\n")
    arguments = [str(home / "questions.tsv"), str(home / "corpus.tsv"), "--out", "x", "--no-cache"]
    with pytest.raises(SystemExit):
        group_answers.main(arguments)
    assert "question '0'" in capsys.readouterr().err
    (home / "questions.tsv").write_text("Where is it?\tOslo\n")
    with pytest.raises(SystemExit):
        group_answers.main([*arguments, "--workers", "0"])
    assert "workers" in capsys.readouterr().err
