"""Tokens with names, those that are wrong, proxies in between, and what is logged of it all."""

import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from jpr.errors import FormatError
from jpr.pipeline import Pipeline
from jpr.serve.access import WrongTokens
from jpr.serve.limits import ServiceLimits, ServiceSettings
from jpr.serve.logs import JsonLines
from jpr.serve.tokens import Tokens, parse_tokens
from tests.serve.running import QUESTION, running
from tests.serve.test_hostile import connect
from tests.serve.test_middleware import wait_for

ASK = {"question": QUESTION}
ADA, OLD, BOB = "ada-0123456789abcdef", "old-0123456789abcdef", "bob-0123456789abcdef"
STAFF = f"# staff\n\nada {ADA}\nada\t{OLD}\nbob {BOB}\n"


def asked(url: str, token: str, **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {token}", **headers}
    return httpx.post(f"{url}/v1/ask", json=ASK, headers=given)


def written(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


def test_tokens_have_names() -> None:
    tokens = Tokens.of_text(STAFF, "here")
    names = [tokens.name_of(token.encode()) for token in (ADA, OLD, BOB, "", f"{ADA} ", "ada")]
    assert names == ["ada", "ada", "bob", None, None, None]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "has no token"),
        ("# staff\n", "has no token"),
        ("0123456789abcde", "tokens:1: .* 15 bytes"),
        (f"ada {ADA}\nbob short", "tokens:2: .* 5 bytes"),
        (f"ada {ADA}\n{BOB}", "tokens:2: is not NAME TOKEN"),
        (f"ada and bob {ADA}", "tokens:1: is not NAME TOKEN"),
        (f"ada {ADA}\nbob {ADA}", "tokens:2: .*two names"),
    ],
)
def test_files_of_tokens_that_are_refused(text: str, fact: str) -> None:
    with pytest.raises(FormatError, match=fact) as raised:
        parse_tokens(text, "tokens")
    assert not any(word in str(raised.value) for word in text.split() if len(word) > 4)


def test_a_file_of_tokens_is_for_its_owner(tmp_path: Path) -> None:
    for mode in (0o644, 0o604):
        with pytest.raises(FormatError, match=r"other users can read it; run chmod 600 .*tokens"):
            Tokens.of_file(written(tmp_path / "tokens", STAFF, mode))
    assert Tokens.of_file(written(tmp_path / "tokens", STAFF, 0o640)).name_of(BOB.encode()) == "bob"
    with pytest.raises(FormatError, match="cannot be read"):
        Tokens.of_file(tmp_path / "none")


def test_tokens_change_while_the_service_runs(
    pipeline: Pipeline, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jpr.serve")
    file = written(tmp_path / "tokens", f"ada {OLD}\n")
    with running(pipeline, tokens=Tokens.of_file(file)) as url:
        assert asked(url, OLD).is_success
        written(tmp_path / "next", f"ada {OLD}\nada {ADA}\n").replace(file)
        wait_for(lambda: asked(url, ADA).is_success)
        assert asked(url, OLD).is_success
        written(file, f"ada {ADA}\n")
        wait_for(lambda: asked(url, OLD).status_code == 401)
        written(file, f"ada {ADA}\nbob\n")  # a mistake is logged, and keeps what was there
        wait_for(lambda: any("NAME TOKEN" in line for line in logged(caplog)))
        assert asked(url, ADA).is_success
    changes = [json.loads(line) for line in logged(caplog) if '"tokens"' in line]
    assert [change.get("names") for change in changes] == [["ada"], ["ada"], None]
    assert not any(token in line for line in logged(caplog) for token in (OLD, ADA))


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [JsonLines().format(record) for record in caplog.records if record.name == "jpr.serve"]


def test_who_sent_a_request_is_logged(pipeline: Pipeline, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jpr.serve")
    with running(pipeline, tokens=Tokens.of_text(STAFF, "here")) as url:
        answers = [asked(url, OLD), asked(url, "guessed"), httpx.get(f"{url}/healthz")]
    own = [record for record in caplog.records if record.threadName == url]
    lines: list[dict[str, Any]] = [json.loads(JsonLines().format(record)) for record in own]
    assert [line.get("token") for line in lines] == ["ada", None, None]
    assert [line["status"] for line in lines] == [200, 401, 200]
    assert [line["id"] for line in lines] == [one.headers["x-request-id"] for one in answers]
    assert [line["route"] for line in lines] == ["/v1/ask", "/v1/ask", "/healthz"]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    assert {"time", "method", "route", "ms"} <= lines[0].keys()
    assert not any(word in json.dumps(lines) for word in (OLD, "guessed", QUESTION))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def status(wrong: WrongTokens, client: str, name: str | None) -> int:
    try:
        wrong.check(client, name)
    except HTTPException as error:
        seconds = int((error.headers or {}).get("retry-after", "0"))
        return error.status_code if error.status_code == 401 or 1 <= seconds <= 5 else 500
    return 200


def test_wrong_tokens_are_limited_but_keep_no_others_out_for_long() -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    assert status(wrong, "home", "ada") == 200
    assert [status(wrong, "home", None) for _ in range(12)] == [401] * 10 + [429] * 2
    assert status(wrong, "home", "ada") == 200  # who was known there
    assert status(wrong, "home", "bob") == 429  # or a guess would be worth it
    assert status(wrong, "elsewhere", "bob") == 200
    clock.now += 5
    assert status(wrong, "home", "bob") == 200
    clock.now += 3600
    assert [status(wrong, "home", None) for _ in range(11)] == [401] * 10 + [429]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 20)), max_size=60))
def test_wrong_tokens_are_checked_at_most_as_often_as_promised(
    tries: list[tuple[str, float]],
) -> None:
    clock = Clock()
    wrong, checked = WrongTokens(clock), dict[str, list[float]]()
    for client, seconds in tries:
        clock.now += seconds
        if status(wrong, client, None) == 401:
            checked.setdefault(client, []).append(clock.now)
    for times in checked.values():
        for at, first in enumerate(times):
            for count, last in enumerate(times[at:], start=1):
                assert count <= 10 + (last - first) / 5 + 1e-6


def test_only_the_last_clients_are_remembered() -> None:
    wrong = WrongTokens(Clock())
    assert [status(wrong, "first", None) for _ in range(11)] == [401] * 10 + [429]
    for at in range(1024):
        assert status(wrong, f"client {at}", None) == 401
    assert status(wrong, "first", None) == 401


def test_guessing_is_slowed_down_over_http(pipeline: Pipeline) -> None:
    with running(pipeline, tokens=Tokens.of_text(STAFF, "here")) as url:
        assert asked(url, ADA).is_success
        found = [asked(url, f"guess {at}") for at in range(11)]
        assert [one.status_code for one in found] == [401] * 10 + [429]
        assert 1 <= int(found[-1].headers["retry-after"]) <= 5
        assert asked(url, BOB).status_code == 429
        assert asked(url, ADA).is_success
        assert httpx.post(f"{url}/v1/ask", json=ASK).status_code == 401  # has none: is no guess
        assert httpx.get(f"{url}/healthz").is_success


def test_only_a_named_proxy_says_who_the_client_is(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jpr.serve")
    forwarded = {"x-forwarded-for": "203.0.113.9, 192.0.2.7"}  # the first is the client's own claim
    for proxies, client in (((), "127.0.0.1"), (("127.0.0.0/8",), "192.0.2.7")):
        caplog.clear()
        with running(pipeline, settings=ServiceSettings(proxies=proxies)) as url:
            httpx.get(f"{url}/healthz", headers=forwarded)
        lines = [json.loads(line) for line in logged(caplog)]
        assert [line["client"] for line in lines if line["event"] == "request"] == [client]


def test_a_proxy_may_have_many_connections(pipeline: Pipeline) -> None:
    settings = ServiceSettings(proxies=("127.0.0.2",))
    with running(pipeline, ServiceLimits(connections=2), settings=settings) as url:
        opened = [connect(url, source) for source in ["127.0.0.2"] * 3 + ["127.0.0.3"] * 3]
        try:
            assert opened[-1].recv(100).startswith(b"HTTP/1.1 429 ")
            request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            opened[2].sendall(request)
            assert opened[2].recv(100).startswith(b"HTTP/1.1 200 ")
        finally:
            for connection in opened:
                connection.close()


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        (("jpr.test",), "jpr.test", 200),
        (("jpr.test",), "JPR.test:443", 200),
        (("jpr.test",), "localhost:8080", 200),
        (("jpr.test",), "192.0.2.1", 200),
        (("jpr.test",), "[2001:db8::1]:80", 200),
        (("jpr.test",), "jpr.test.example", 403),
        ((), "jpr.test", 403),
        ((), "localhost.example", 403),
    ],
)
def test_names_of_the_service(
    pipeline: Pipeline, hosts: tuple[str, ...], host: str, status: int
) -> None:
    with running(pipeline, settings=ServiceSettings(hosts=hosts)) as url:
        assert httpx.get(f"{url}/healthz", headers={"host": host}).status_code == status
