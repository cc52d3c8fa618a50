"""Whole processes: one that is asked to end, and one that an assistant talks to."""

import asyncio
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.serve.running import QUESTION, STUCK_SECONDS
from tests.serve.test_middleware import wait_for, waiting

ROOT = Path(__file__).parents[2]


def test_sigterm_lets_running_requests_finish(served: Path) -> None:
    program = [sys.executable, "-m", "tests.serve.running", str(served)]
    with subprocess.Popen(program, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = json.loads(process.stderr.readline())["url"]
        with ThreadPoolExecutor() as threads:
            ask = {"question": QUESTION}
            asked = threads.submit(httpx.post, f"{url}v1/ask", json=ask, timeout=30)
            wait_for(lambda: waiting(url.rstrip("/")) == 1)
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: is_refused(url))
            assert not asked.done()
            assert asked.result().status_code == 200
        events = [json.loads(line)["event"] for line in process.stderr]
        assert process.wait(10) == 0
    assert events[-2:] == ["request", "ended"]


def test_sigterm_ends_a_service_whose_model_is_stuck(served: Path) -> None:
    program = [sys.executable, "-m", "tests.serve.running", str(served), "--stuck"]
    with (
        subprocess.Popen(program, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor() as threads,
        ExitStack() as ended,
    ):
        ended.callback(process.kill)
        assert process.stderr is not None
        url = json.loads(process.stderr.readline())["url"]
        sent = [
            threads.submit(httpx.post, f"{url}v1/{path}", json={field: "red"}, timeout=30)
            for path, field in [("ask", "question"), ("ask", "question"), ("search", "query")]
        ]
        wait_for(lambda: waiting(url.rstrip("/")) == 3)
        process.send_signal(signal.SIGTERM)
        begun = monotonic()
        assert {one.result().status_code for one in sent} == {504}
        assert process.wait(30) == 0
        assert monotonic() - begun < STUCK_SECONDS + 10  # as docs/serve.md promises
        assert json.loads(list(process.stderr)[-1])["event"] == "ended"


def test_sigterm_ends_a_service_that_has_just_started(served: Path) -> None:
    program = [sys.executable, "-m", "tests.serve.running", str(served)]
    with (
        subprocess.Popen(program, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process,
        ExitStack() as ended,
    ):
        ended.callback(process.kill)
        assert process.stderr is not None
        assert json.loads(process.stderr.readline())["event"] == "serving"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def is_refused(url: str) -> bool:
    try:
        httpx.get(f"{url}healthz")
    except httpx.ConnectError:
        return True
    return False


def test_an_assistant_asks_and_searches(served: Path) -> None:
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.serve.running", str(served), "--mcp"],
        cwd=ROOT,
    )

    async def talk() -> tuple[dict[str, Any], Any, Any, Any]:
        async with Client(stdio_client(program)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            found = await client.call_tool("search", {"query": "red"})
            replied = await client.call_tool("ask", {"question": QUESTION, "k": 2})
            wrong = await client.call_tool("ask", {"question": " "})
            return tools, found, replied, wrong

    tools, found, replied, wrong = asyncio.run(talk())
    assert set(tools) == {"ask", "search"}
    assert tools["ask"].description.startswith("Find every distinct answer to a question")
    assert [hit["id"] for hit in found.structured_content["hits"]] == ["red"]
    assert len(replied.structured_content["passages"]) == 2
    assert replied.structured_content["answers"]
    assert json.loads(replied.content[0].text) == replied.structured_content
    assert wrong.is_error
    assert "the question has no text" in wrong.content[0].text


def test_every_request_of_an_assistant_gets_a_reply(served: Path) -> None:
    program = [sys.executable, "-m", "tests.serve.running", str(served), "--mcp"]
    half = r'{"name": "search", "arguments": {"query": "red \ud800"}}'
    requests = [
        call(1, json.dumps(START)).replace("tools/call", "initialize"),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        call(2, half),
        call(3, json.dumps({"name": "search", "arguments": {"query": "x" * (1 << 20)}})),
        '{"jsonrpc": "2.0", "method": "tools/call", "params": [' + "0," * 60_000 + '0], "id": 4}',
        call(5, json.dumps({"name": "search", "arguments": {"query": "x" * 10_001}})),
        call(6, json.dumps({"name": "search", "arguments": {"query": "red"}})),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, cwd=ROOT, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join([*requests, ""]).encode())
        process.stdin.flush()
        replies: dict[int, Any] = {}
        while len(replies) < 6:
            reply = json.loads(process.stdout.readline())
            replies[reply["id"]] = reply
        process.stdin.close()
        assert process.wait(30) == 0
    assert [hit["id"] for hit in replies[2]["result"]["structuredContent"]["hits"]] == ["red"]
    assert "1,048,576 bytes" in json.dumps(replies[3]["error"])
    assert "50,000 values" in json.dumps(replies[4]["error"])
    assert replies[5]["result"]["isError"]
    assert not replies[6]["result"]["isError"]


START = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def call(id: int, parameters: str) -> str:
    return f'{{"jsonrpc": "2.0", "id": {id}, "method": "tools/call", "params": {parameters}}}'
