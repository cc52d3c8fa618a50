import re
import subprocess
import sys
from pathlib import Path

import pytest

from jpr.formats.format import Formats, RecordKind
from jpr.types import Question

EXTENDING = Path(__file__).parents[2] / "docs" / "extending.md"


def test_a_new_format_is_one_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = EXTENDING.read_text(encoding="utf-8").partition("\n## A data set\n")[2]
    block = re.search("```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "quiz.py").write_text(block[1], encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    formats = Formats[Question]("sets", "quiz")
    assert "sets.quiz" not in sys.modules
    path = tmp_path / "quiz.jsonl"
    path.write_text('{"no": 1, "asked": "who?", "accepted": [["Ida"], ["Tom"]]}\n')
    kind = RecordKind("questions", formats, key=lambda question: question.id)
    questions = list(kind.read(path))
    assert questions == [Question("1", "who?", (("Ida",), ("Tom",)))]
    assert [format.name for format in formats] == ["quiz"]
    assert "Ida Marsh" in capsys.readouterr().out  # what the block itself prints


def test_parsers_are_loaded_when_a_file_is_read() -> None:
    code = (
        "import sys, jpr.pipeline, jpr.formats.corpus, jpr.formats.questions, jpr.formats.runs;"
        "names = 'json_lines', 'json_documents', 'tab_separated', 'json_runs', 'tsv', 'wikipedia';"
        "print([name for name in sys.modules if name.startswith('jpr.') and name.endswith(names)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
