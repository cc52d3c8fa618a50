"""Commands run as a user would run them, and small files for them."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jpr.cli import app, main
from jpr.errors import JprError

EXAMPLE = Path(__file__).parents[2] / "jpr" / "assets" / "example"


def jpr(*arguments: object) -> str:
    """Run a command that must succeed and return what it wrote."""
    result = CliRunner().invoke(
        app, [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    """Run a command that must fail by a mistake of the user's, and return its one sentence."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, JprError), result.output
    said = str(result.exception)
    assert "\n" not in said
    return said


def fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> str:
    """Run a command that must fail with exit code 2 and return the one sentence it said."""
    monkeypatch.setattr(sys, "argv", ["jpr", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert re.fullmatch("jpr: .*\n", said)
    return said


def questions_file(folder: Path) -> Path:
    path = folder / "questions.jsonl"
    path.write_text(
        '{"id": "a", "question": "first?", "answers": [["red"], ["blue"]]}\n'
        '{"id": "b", "question": "second?", "answers": [["green"]]}\n'
    )
    return path


def run_file(folder: Path, name: str, texts: list[str]) -> Path:
    path = folder / name
    ctxs = [{"id": text, "title": "", "text": text, "score": -i} for i, text in enumerate(texts)]
    path.write_text(json.dumps({"id": "a", "question": "first?", "ctxs": ctxs}) + "\n")
    return path
