"""What comes out: no text moves the cursor, JSON is JSON, and secrets stay where they are."""

import json
import logging
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from jpr.cli import _exit_code
from jpr.pipeline import Pipeline
from jpr.retrieve.index import build_index
from jpr.serve.access import AccessPolicy
from jpr.serve.app import make_app
from jpr.serve.logs import JsonLines
from jpr.serve.tokens import Tokens
from jpr.types import Passage
from tests.serve.running import PASSAGES, QUESTION, make_service, open_pipeline, running

HALF = "\ud800"
HOSTILE = "honey \x1b[2J\x1b]0;owned\x07 \x9b31m \0 \r\b <script>alert(1)</script> é"
SECRET = "sk-very-secret-1234"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "index"
    meta = {"size": float("inf"), "more": HALF}
    passages = [
        Passage(HOSTILE, HOSTILE, HOSTILE),
        Passage(f"{HALF}1", f"{HALF} honey", HALF, meta),
    ]
    build_index(passages, folder, source="test")
    return folder


@pytest.fixture(scope="module")
def pipeline(served: Path) -> Pipeline:
    return open_pipeline(served)


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert _exit_code(arguments) == 0
    return capfd.readouterr().out


def test_found_passages_do_not_reach_the_terminal_raw(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(capsys, "retrieve", str(index), f"honey {HALF} \x1b")
    assert "\\x1b[2J" in shown
    assert not any(sign in shown for sign in "\x1b\x9b\x07\0\b")


def test_json_is_json_whatever_was_found(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "retrieve", str(index), "honey", "--json")
    found = json.loads(shown.encode("utf-8"), parse_constant=pytest.fail)
    assert {hit["id"] for hit in found["hits"]} == {HOSTILE, f"{HALF}1"}


def test_errors_quote_nothing_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "\\u001b[2J", "question": "?", "answers": 7}\n')
    for name in ("q.jsonl", "no\x1b[2J.jsonl"):
        assert _exit_code(["validate", str(tmp_path / name)]) == 2
        assert "\x1b" not in capsys.readouterr().err


def test_the_token_is_required_wherever_the_app_is_mounted(pipeline: Pipeline) -> None:
    inner = make_app(make_service(pipeline), AccessPolicy(Tokens.of_text(SECRET, "here")))
    with TestClient(Starlette(routes=[Mount("/jpr", inner)])) as client:
        assert client.get("/jpr/healthz").status_code == 200
        for path in ("/jpr/v1/ask", "/jpr/v1/search", "/jpr/v2/rerank", "/jpr/v1/corpora"):
            assert client.post(path, json={"question": QUESTION}).status_code == 401
        assert client.get("/jpr/metrics").status_code == 401
        known = {"authorization": f"Bearer {SECRET}"}
        body = {"question": QUESTION}
        assert client.post("/jpr/v1/ask", json=body, headers=known).status_code == 200


@pytest.mark.parametrize("head", [{"host": "["}, {"host": "[::1"}, {"origin": "http://["}])
def test_addresses_that_are_none_are_refused(pipeline: Pipeline, head: dict[str, str]) -> None:
    with running(pipeline) as url:
        answer = httpx.post(f"{url}/v1/ask", json={"question": QUESTION}, headers=head)
        assert answer.status_code in (400, 403)


def test_secrets_are_neither_logged_nor_returned(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    with running(pipeline, tokens=Tokens.of_text(SECRET, "here")) as url:
        for given in (f"Bearer {SECRET}", f"Basic {SECRET}", SECRET, f"Bearer {SECRET}x"):
            head = {"authorization": given, "x-api-key": SECRET, "cookie": SECRET}
            for body in ({"question": PASSAGES[0].text}, {"question": 7}):
                answer = httpx.post(f"{url}/v1/ask?key={SECRET}", json=body, headers=head)
                assert SECRET not in answer.text + str(answer.headers)
        metrics = httpx.get(f"{url}/metrics", headers={"authorization": f"Bearer {SECRET}"})
        assert SECRET not in metrics.text
    own = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert own
    assert not any(SECRET in JsonLines().format(record) for record in own)
