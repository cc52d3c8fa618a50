"""Whatever a client sends, the service answers; none of its answers is an error of its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from jpr.serve.access import AccessPolicy
from jpr.serve.app import make_app
from jpr.serve.limits import ServiceLimits
from jpr.serve.tokens import Tokens
from tests.serve.running import make_service, open_pipeline

from .hostile import altered, damaged, fuzzing
from .test_documents import SAMPLES

ASK = {"question": "which colour ?", "k": 2, "beta": 1.5, "decode": "tree", "compare": True}
SEARCH = {"query": "red", "k": 3}
RERANK = {
    "query": "which colour ?",
    "documents": ["red", {"text": "blue which", "title": "blue", "year": 1999, "more": [1.5]}],
    "top_n": 2,
    "return_documents": True,
    "rank_fields": ["text"],
    "relevant_spans": {"mode": "enabled", "threshold": 0.0, "max_spans": 2},
    "decode": "sets",
    "beta": 1,
    "model": "jpr",
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/ask": ASK,
    "/v1/search": SEARCH,
    "/v1/rerank": RERANK,
    "/v2/rerank": RERANK,
}
JSON = {"content-type": "application/json"}
HEADERS = st.sampled_from(
    ["host", "origin", "authorization", "content-type", "content-length", "accept", "expect"]
)
NAMES = st.text(max_size=80) | st.sampled_from(
    ["../../x.txt", "/etc/passwd.txt", "C:\\x.md", "a\0b.txt", "x" * 5000 + ".txt", "..", "con.csv"]
)


@pytest.fixture(scope="module")
def client(served: Path) -> Iterator[TestClient]:
    app = make_app(
        make_service(open_pipeline(served), ServiceLimits(seconds=20)),
        AccessPolicy(Tokens.of_text("0123456789abcdef", "here"), ("localhost",)),
    )
    with TestClient(
        app,
        base_url="http://127.0.0.1",
        raise_server_exceptions=False,
        headers={"authorization": "Bearer 0123456789abcdef"},
    ) as made:
        yield made


def checked(answer: Any) -> Any:  # noqa: ANN401  any JSON
    """See that an answer is JSON that everyone can read, and an error a sentence."""
    body = json.loads(answer.content.decode("utf-8"), parse_constant=pytest.fail)
    assert answer.status_code < 500, body
    if answer.status_code >= 400:
        assert body.keys() == {"message", "detail"}
        assert 0 < len(body["message"]) < 2500
        assert "\n" not in body["message"]
    return body


@pytest.mark.parametrize("path", BODIES)
@given(data=st.data())
@fuzzing
def test_bodies(client: TestClient, path: str, data: st.DataObject) -> None:
    body = json.dumps(data.draw(altered(BODIES[path]))).encode()
    if data.draw(st.booleans()):
        body = data.draw(damaged(json.dumps(BODIES[path]).encode()) | st.binary(max_size=100))
    checked(client.post(path, content=body, headers=JSON))


@pytest.mark.parametrize("depth", [*range(880, 1000, 7), 5000])
def test_depths(client: TestClient, depth: int) -> None:
    inner = b'{"a":' * depth + b"1" + b"}" * depth
    for document in (b'{"text": "red", "more": ' + inner + b"}", b'{"text": ' + inner + b"}"):
        body = b'{"query": "red", "documents": [' + document + b"]}"
        answer = client.post("/v1/rerank", content=body, headers=JSON)
        assert answer.status_code in (200, 400, 422)


def test_a_question_as_long_as_a_book_is_refused_at_once(client: TestClient) -> None:
    for length, status in ((10_000_000, 413), (20_000_000, 413), (10_001, 422)):
        book = "w" * length
        for path, body in (("/v1/ask", {"question": book}), ("/v1/search", {"query": book})):
            answer = client.post(path, json=body)
            assert (answer.status_code, len(answer.content) < 300) == (status, True)


@given(data=st.data())
@fuzzing
def test_heads(client: TestClient, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(["GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "X"]))
    path = data.draw(
        st.sampled_from([*BODIES, "/", "/v1/corpora", "/metrics", "/healthz", "/openapi.json"])
        | st.text(st.characters(codec="utf-8"), max_size=30).map(lambda text: f"/{quote(text)}")
    )
    value = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40)
    value |= st.sampled_from(["[", "http://[", "null", "Bearer", "9" * 40, "-1", "multipart/x;="])
    head = [
        (name.encode(), data.draw(value).encode("latin-1")) for name in data.draw(st.sets(HEADERS))
    ]
    answer = client.request(method, path, headers=head, content=json.dumps(ASK))
    assert answer.status_code < 500


@given(data=st.data())
@fuzzing
def test_uploads(client: TestClient, data: st.DataObject) -> None:
    ending = data.draw(st.sampled_from(sorted(SAMPLES)))
    content = data.draw(st.just(SAMPLES[ending]) | damaged(SAMPLES[ending]))
    name = data.draw(NAMES.map(lambda text: text + ending) | NAMES)
    sent = client.post("/v1/corpora", files=[("files", (name, content))])
    body = checked(sent)
    if sent.status_code == 201:
        asked = {"corpus": body["corpus"], "question": "which honey ?"}
        assert client.post("/v1/ask", json=asked).status_code == 200
        found = client.post("/v1/search", json={"corpus": body["corpus"], "query": "honey"})
        checked(found)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the library
@given(data=st.data())
@fuzzing
def test_forms(client: TestClient, data: st.DataObject) -> None:
    whole = (
        b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n'
        b"Content-Type: text/plain\r\n\r\nred\r\n--x--\r\n"
    )
    charset = data.draw(st.sampled_from(["", "; charset=utf-16", "; charset=unicode_escape"]))
    head = {"content-type": f"multipart/form-data; boundary=x{charset}"}
    checked(client.post("/v1/corpora", content=data.draw(damaged(whole)), headers=head))


def test_nothing_was_left_behind(client: TestClient) -> None:
    assert client.get("/healthz").status_code == 200
    assert not Path("x.txt").exists()
