"""Which requests are rejected, with what status, and what is logged of them."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import httpx
import pytest
from starlette.types import Message

from jpr.pipeline import Pipeline
from jpr.retrieve.custom import FunctionRetriever
from jpr.serve.access import AccessPolicy
from jpr.serve.limits import ServiceLimits
from jpr.serve.logs import JsonLines
from jpr.serve.middleware import RequestMiddleware
from jpr.serve.tokens import Tokens
from jpr.types import Hit
from tests.serve.running import HITS, QUESTION, make_service, running

ASK = {"question": QUESTION}
SECRET = "hidden-0123456789"


class Held:
    """A first stage that waits until it is released."""

    def __init__(self) -> None:
        self.may_go, self.asked = Event(), list[str]()

    def __call__(self, text: str, k: int) -> list[Hit]:
        self.asked.append(text)
        self.may_go.wait()
        return HITS[:k]


@contextmanager
def held_up(
    pipeline: Pipeline, limits: ServiceLimits, tokens: Tokens | None = None
) -> Iterator[tuple[str, Held]]:
    held = Held()
    with running(replace(pipeline, retriever=FunctionRetriever(held)), limits, tokens) as url:
        try:
            yield url, held
        finally:
            held.may_go.set()


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        Event().wait(0.01)
    raise AssertionError("it did not come about")


def waiting(url: str, token: str = "none") -> float:
    head = {"authorization": f"Bearer {token}"}
    lines = httpx.get(f"{url}/metrics", headers=head).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("jpr_waiting "))


def test_one_too_many_is_rejected_and_none_is_lost(pipeline: Pipeline) -> None:
    limits = ServiceLimits(waiting=3, batch=2)
    with held_up(pipeline, limits) as (url, held), ThreadPoolExecutor(3) as threads:
        asked = [
            threads.submit(httpx.post, f"{url}/v1/ask", json={"question": f"red {at}"}, timeout=30)
            for at in range(3)
        ]
        wait_for(lambda: waiting(url) == 3)
        with httpx.Client() as client:
            for _ in range(5):  # on one connection, which stays usable
                refused = client.post(f"{url}/v1/ask", json=ASK)
                assert refused.status_code == 429
                assert 1 <= int(refused.headers["retry-after"]) <= 60
                assert "3 requests" in refused.json()["message"]
            assert client.get(f"{url}/healthz").status_code == 200
            held.may_go.set()
            assert [one.result().status_code for one in asked] == [200] * 3
            assert client.post(f"{url}/v1/ask", json=ASK).status_code == 200


def test_a_request_ends_at_its_deadline(pipeline: Pipeline) -> None:
    with held_up(pipeline, ServiceLimits(seconds=0.3, batch=1)) as (url, held):
        with ThreadPoolExecutor(2) as threads:
            asked = [
                threads.submit(httpx.post, f"{url}/v1/ask", json={"question": f"red {at}"})
                for at in range(2)
            ]
            found = [one.result() for one in asked]
        assert [one.status_code for one in found] == [504, 504]
        assert "0.3 seconds" in found[0].json()["message"]
        assert waiting(url) == 0
        held.may_go.set()
        assert httpx.post(f"{url}/v1/ask", json=ASK).status_code == 200
        assert len(held.asked) == 2  # the one that waited was not begun any more


def test_after_a_deadline_no_more_of_the_body_is_waited_for(pipeline: Pipeline) -> None:
    """The next request on the connection would wait, too."""
    messages = iter([{"type": "http.request", "body": b"{}"}, {}])
    sent: list[Message] = []

    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    async def receive() -> Message:
        message = next(messages)  # the second call waits for a disconnect; a third one fails
        await asyncio.sleep(0 if message else 60)
        return message

    async def send(message: Message) -> None:
        sent.append(message)

    service = make_service(pipeline, ServiceLimits(seconds=0.1))
    scope = {"type": "http", "method": "POST", "path": "/v1/ask", "headers": []}
    asyncio.run(RequestMiddleware(forever, service, AccessPolicy())(scope, receive, send))
    assert sent[0]["status"] == 504
    assert sent[-1] == {"type": "http.response.body", "body": b""}
    service.close()


def test_a_client_that_disconnects_is_not_served(pipeline: Pipeline) -> None:
    with held_up(pipeline, ServiceLimits(batch=1)) as (url, held):
        for at in range(2):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{url}/v1/ask", json={"question": f"red {at}"}, timeout=0.3)
        wait_for(lambda: waiting(url) == 0)
        held.may_go.set()
        assert httpx.post(f"{url}/v1/ask", json=ASK).status_code == 200
        assert held.asked == ["red 0", QUESTION]


def test_a_body_that_is_too_large_is_not_read(pipeline: Pipeline) -> None:
    with running(pipeline, ServiceLimits(body=1000)) as url:
        declared = httpx.post(f"{url}/v1/ask", json={"question": "x" * 1001})
        assert declared.status_code == 413
        assert "at most 1,000 bytes" in declared.json()["message"]
        streamed = httpx.post(f"{url}/v1/ask", content=(b"x" * 600 for _ in range(2)))
        assert streamed.status_code == 413
        host, port = url.removeprefix("http://").split(":")
        head = f"POST /v1/ask HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999\r\n\r\n"
        with socket.create_connection((host, int(port))) as raw:  # and waits for nothing
            raw.sendall(head.encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_come_is_not_waited_for(pipeline: Pipeline) -> None:
    with running(pipeline, ServiceLimits(seconds=0.2)) as url:
        host, port = url.removeprefix("http://").split(":")
        head = f"POST /v1/ask HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{"
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(head.encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("path", "body", "status", "fact"),
    [
        ("/v1/ask", b"{", 400, "not valid JSON"),
        ("/v1/ask", b"[]", 422, "send a JSON object, with Content-Type: application/json"),
        ("/v1/ask", b"{}", 422, "question: "),
        ("/v1/ask", b'{"question": " "}', 422, "no text"),
        ("/v1/ask", b'{"question": "a", "bta": 1}', 422, "bta: "),
        ("/v1/ask", b'{"question": "a", "k": 11}', 422, "k: must be at most 10"),
        ("/v1/ask", b'{"question": "a", "beta": 1e9}', 422, "beta: Input should be less than"),
        ("/v1/ask", b'{"question": "a", "decode": "seq", "beta": 1}', 422, "seq"),
        ("/v1/search", b'{"query": "a", "k": 0}', 422, "k: Input should be greater than"),
        ("/v1/rerank", b'{"query": "a", "documents": []}', 422, "documents: give at least one"),
        ("/v1/rerank", b'{"query": "a", "documents": [{}]}', 422, "documents.0: no field 'text'"),
        ("/v1/corpora", b"{}", 422, "files: "),
        ("/v1/nothing", b"{}", 404, "no such path"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(
    url: str, path: str, body: bytes, status: int, fact: str
) -> None:
    answer = httpx.post(url + path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert fact in answer.json()["message"]


def test_another_method_of_a_path_is_not_allowed(url: str) -> None:
    answers = [httpx.get(f"{url}/v1/ask"), httpx.post(f"{url}/healthz"), httpx.post(f"{url}/")]
    assert [answer.status_code for answer in answers] == [405, 405, 405]
    assert [answer.headers.get("allow") for answer in answers[:2]] == ["POST", "GET"]
    assert httpx.get(f"{url}/v1/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/" + "x" * 3000, "/a%00b", "/../app.py", "/%2e%2e/app.py"])
def test_paths_that_no_file_can_have_are_not_found(url: str, path: str) -> None:
    assert httpx.get(url + path).status_code == 404


def test_texts_and_passages_have_limits(pipeline: Pipeline) -> None:
    with running(pipeline, ServiceLimits(passages=2, characters=20)) as url:
        many = {"query": "a", "documents": ["b"] * 3}
        assert httpx.post(f"{url}/v2/rerank", json=many).status_code == 413
        long = {"query": "a", "documents": ["b" * 10] * 2}
        declared = httpx.post(f"{url}/v2/rerank", json=long)
        assert declared.status_code == 413
        assert "21 characters; send at most 20" in declared.json()["message"]


def test_the_token_is_required_for_all_that_reveals_documents(pipeline: Pipeline) -> None:
    with running(pipeline, tokens=Tokens.of_text(SECRET, "here")) as url:
        for given in ({}, {"authorization": "Bearer other"}, {"authorization": SECRET}):
            refused = httpx.post(f"{url}/v1/ask", json=ASK, headers=given)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert httpx.get(f"{url}/healthz").status_code == 200
        right = {"authorization": f"Bearer {SECRET}"}
        assert httpx.post(f"{url}/v1/ask", json=ASK, headers=right).status_code == 200


def test_pages_of_other_sites_are_kept_out(url: str) -> None:
    own = url.removeprefix("http://")
    for headers in ({"host": "elsewhere.example"}, {"origin": "https://elsewhere.example"}):
        assert httpx.post(f"{url}/v1/ask", json=ASK, headers=headers).status_code == 403
    for headers in ({"origin": url}, {"host": own.replace("127.0.0.1", "localhost")}):
        assert httpx.post(f"{url}/v1/ask", json=ASK, headers=headers).status_code == 200
    plain = {"content-type": "text/plain"}  # what a page may send without asking
    sent = httpx.post(f"{url}/v1/ask", content=json.dumps(ASK), headers=plain)
    assert sent.status_code == 422


def test_logs_hold_no_text(pipeline: Pipeline, caplog: pytest.LogCaptureFixture) -> None:
    secret = "unspeakable"
    caplog.set_level(logging.INFO, "jpr.serve")
    with running(pipeline, tokens=Tokens.of_text(SECRET, "here")) as url:
        headers = {"authorization": f"Bearer {SECRET}"}
        rerank = {"query": secret, "documents": [secret]}
        httpx.post(f"{url}/v1/rerank?q={secret}", json=rerank, headers=headers)
        httpx.post(f"{url}/v1/ask", json={"question": "", "oops": secret}, headers=headers)
        httpx.get(f"{url}/{secret}", headers=headers)
    own = [record for record in caplog.records if record.threadName == url]  # others may be late
    lines = [JsonLines().format(record) for record in own]
    assert [json.loads(line)["status"] for line in lines] == [200, 422, 404]
    first = json.loads(lines[0])
    assert (first["route"], first["passages"]) == ("/v1/rerank", 1)
    assert not any(word in line for line in lines for word in (secret, SECRET))


def test_an_internal_error_is_logged_without_its_message(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str, k: int) -> list[Hit]:
        raise RuntimeError("unspeakable")

    with running(replace(pipeline, retriever=FunctionRetriever(fail))) as url:
        answer = httpx.post(f"{url}/v1/ask", json=ASK)
        assert answer.status_code == 500
        assert answer.json()["message"] == "internal error; see the log of the service"
        assert httpx.post(f"{url}/v1/rerank", json={"query": "a", "documents": ["b"]}).is_success
    lines = [JsonLines().format(record) for record in caplog.records]
    logged = next(json.loads(line) for line in lines if "RuntimeError" in line)
    assert logged["at"][-1].endswith(" fail")
    assert not any("unspeakable" in line for line in lines)


def test_metrics_are_in_the_format_of_prometheus(url: str) -> None:
    httpx.post(f"{url}/v2/rerank", json={"query": "red", "documents": ["red"]})
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    assert kinds["jpr_requests_total"] == "counter"
    assert kinds["jpr_request_seconds"] == "histogram"
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(values['jpr_requests_total{route="/v2/rerank",status="200"}']) >= 1
    last = values['jpr_request_seconds_bucket{le="+Inf",route="/v2/rerank"}']
    assert last == values['jpr_request_seconds_count{route="/v2/rerank"}']
    assert {name.partition("{")[0] for name in values} == {
        *(
            f"jpr_{name}_total"
            for name in ("requests", "jobs", "batches", "tokens", "reused", "abandoned")
        ),
        *(f"jpr_request_seconds_{part}" for part in ("bucket", "sum", "count")),
        *(f"jpr_{name}" for name in ("waiting", "queue_seconds", "stuck_seconds")),
    }


def test_the_paths_are_described(url: str) -> None:
    described = httpx.get(f"{url}/openapi.json").json()
    assert {"/v1/rerank", "/v2/rerank", "/v1/ask", "/v1/search", "/v1/corpora", "/healthz"} <= set(
        described["paths"]
    )
