"""A third engine: that of docs/extending.md, with its line in the table."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from jpr.errors import ConfigError
from jpr.retrieve.engines import ENGINES, Engine, engine_of
from jpr.retrieve.retrievers import open_retriever
from tests.cli.running import fails, jpr

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = next(
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "MARK" in code
    )
    line = re.search(r'^ {4}"(\w+)": Engine\("(.+)", "(.+)"\),$', page, re.MULTILINE)
    assert line
    module = ModuleType(line[2])
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, line[2], module)
    monkeypatch.setitem(ENGINES, line[1], Engine(line[2], line[3]))


@pytest.mark.usefixtures("overlap")
def test_it_builds_and_is_recognized_and_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, index = tmp_path / "p.tsv", tmp_path / "index"
    corpus.write_text("id\ttext\ttitle\n1\tA tall tower.\tT\n2\tThe light is red.\tL\n")
    jpr("index", corpus, "--out", index, "--set", "engine=overlap")
    assert engine_of(index) == "overlap"
    found = json.loads(jpr("retrieve", index, "which light is red?", "-k", 1, "--json"))
    assert [hit["id"] for hit in found["hits"]] == ["2"]
    with pytest.raises(ConfigError, match="lexical only"):
        open_retriever(index, "dense")
    message = fails(capsys, monkeypatch, "index", corpus, "--out", index)
    assert "holds an index of engine overlap; choose another folder" in message
