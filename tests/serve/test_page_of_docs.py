"""The blocks of docs/serve.md for clients run against a service of the bundled model."""

import io
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from jpr.pipeline import Pipeline
from jpr.read.spans import SpanReader
from jpr.rerank.joint import JointReranker
from jpr.retrieve.custom import FunctionRetriever
from jpr.serve.engine import CACHED_QUESTIONS, MAX_JOINT, SEARCH_SECONDS
from jpr.serve.limits import ServiceLimits
from tests.serve.running import HITS, running

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
HOST = "http://127.0.0.1:8080"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind} client\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def bundled() -> Iterator[str]:
    joint = JointReranker.load(device="cpu")
    retriever = FunctionRetriever(lambda _, k: HITS[:k])
    with running(Pipeline(retriever, joint, SpanReader(joint), 5, 10)) as url:
        yield url


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs_and_prints_what_is_shown(bundled: str, code: str) -> None:
    names: dict[str, Any] = {"__name__": "block"}
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code.replace(HOST, bundled), "block", "exec"), names)
    names["client"].__exit__(None, None, None)  # closes its connections, as the end of a script
    assert f"# {printed.getvalue()}" == code.splitlines(keepends=True)[-1]


@pytest.mark.skipif(not which("curl"), reason="there is no curl here")
@pytest.mark.parametrize("commands", blocks("bash"))
def test_commands_are_answered(bundled: str, commands: str, tmp_path: Path) -> None:
    script = commands.replace(HOST, bundled).replace("curl -s", "curl -sf")
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.count('"passages"') or done.stdout.count('"hits"')


def test_limits_are_those_of_the_page() -> None:
    usual = ServiceLimits()
    named = [f"| {number:,} " for number in (usual.passages, usual.characters, usual.waiting)]
    named += [
        f"| {usual.body >> 20} MiB |",
        f"| {usual.seconds:g} from",
        f"| {usual.batch} requests",
    ]
    named += [
        f"the first {MAX_JOINT} are chosen",
        f"last {CACHED_QUESTIONS} questions",
        f"take {SEARCH_SECONDS:g} seconds",
    ]
    named += [f"| {usual.corpora} uploaded corpora |"]
    assert [text for text in named if text not in PAGE] == []
