"""Load on `jpr serve`, by clients on loopback.

python benchmarks/serve.py [--tiny] [--passages 20] [--seconds 30] [--requests 10000]
                           [--out FILE.json]

The service is a process of its own with the bundled model; a request is POST /v2/rerank of a
question and `--passages` passages of 100 invented words, no two alike, k = 5.

- Load: 1, 8 and 64 clients, each sending its next request after the response, for some seconds;
  with dynamic batching (up to 8 requests at once) and without.
- Overload: 64 clients where 8 requests may wait. Every request must be answered, those beyond the
  limit with 429 and Retry-After. Then each client retries after that time, until it is served.
- Redraw: a question over 100 passages, then the same with other β, as the page's slider does.
- Memory: resident memory of the process during many small requests. The model is tiny and random
  and a request has five passages of ten words, as this is about the service.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median, quantiles

from lines import line
from served import WORDS, serving, text, tiny_model

from jpr.io.manifest import manifest
from jpr.rerank.joint import BUNDLED_MODEL

CLIENTS = (1, 8, 64)
BATCHES = (8, 1)
BETAS = (-2.0, -1.0, 0.0, 1.0, 1.5, 3.0, 4.0, 8.0)
PACKAGES = ("fastapi", "onnxruntime", "uvicorn")
COLUMNS = {
    "clients": (7, "d"),
    "batch": (5, "d"),
    "answered": (8, "d"),
    "per second": (10, ".2f"),
    "p50 ms": (8, ".0f"),
    "p95 ms": (8, ".0f"),
    "p99 ms": (8, ".0f"),
}
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Load:
    """How much is requested."""

    passages: int
    seconds: float
    """For each number of clients."""
    requests: int
    """While memory is measured."""
    asks: int
    """Requests of each client under overload."""
    overload: int
    """Clients under overload."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a request."""

    status: int
    seconds: float
    retry_after: float | None


def bodies(passages: int, words: int = WORDS) -> Iterator[bytes]:
    """Yield requests, no two alike."""
    for seed in count():
        draw = random.Random(seed)
        documents = [text(draw, words) for _ in range(passages)]
        query = f"who {text(draw, 8)}?"
        yield json.dumps({"query": query, "documents": documents, "top_n": 5}).encode()


class Connection:
    """A client's persistent connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take an open one."""
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> "Connection":
        """Open one."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes) -> Answer:
        """Send a request and wait for its answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begun = time.perf_counter()
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(one.lower().split(": ", 1) for one in lines if one)
        await self._reader.readexactly(int(headers["content-length"]))
        again = float(headers["retry-after"]) if "retry-after" in headers else None
        return Answer(int(first.split()[1]), time.perf_counter() - begun, again)

    async def close(self) -> None:
        """Close it."""
        self._writer.close()
        await self._writer.wait_closed()


def clients(
    port: int, number: int, ask: Callable[[Connection], Awaitable[list[Answer]]]
) -> list[Answer]:
    """Run clients, all at the same time, and return all answers."""

    async def one() -> list[Answer]:
        connection = await Connection.to(port)
        try:
            return await ask(connection)
        finally:
            await connection.close()

    async def every() -> list[list[Answer]]:
        return await asyncio.gather(*(one() for _ in range(number)))

    return [answer for answers in asyncio.run(every()) for answer in answers]


def load(model: Path, size: Load) -> tuple[list[Row], Row]:
    """Measure throughput and times, and how fast the same question is answered again."""
    rows: list[Row] = []
    print(line(COLUMNS, {}))
    for batch in BATCHES:
        with serving(model, batch=batch) as service:
            again = redraw(service.port)
            for number in CLIENTS:
                rows.append({"batch": batch, **asked(service.port, number, size)})
                print(line(COLUMNS, rows[-1]), flush=True)
    return rows, again


def asked(port: int, number: int, size: Load) -> Row:
    """Let clients send requests for some seconds."""
    requests = bodies(size.passages)
    begun = time.perf_counter()

    async def ask(connection: Connection) -> list[Answer]:
        answers: list[Answer] = []
        while not answers or time.perf_counter() < begun + size.seconds:
            answers.append(await connection.post("/v2/rerank", next(requests)))
        return answers

    answers = clients(port, number, ask)
    took = time.perf_counter() - begun
    assert all(answer.status == 200 for answer in answers), "a request was not answered"
    times = [1000 * answer.seconds for answer in answers]
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    parts = {f"p{at} ms": cuts[at - 1] for at in (50, 95, 99)}
    return {"clients": number, "answered": len(times), "per second": len(times) / took, **parts}


def overload(model: Path, size: Load) -> Row:
    """Send more requests than may wait, first without retries, then with."""
    requests = bodies(size.passages)

    async def without_retry(connection: Connection) -> list[Answer]:
        return [await connection.post("/v2/rerank", next(requests)) for _ in range(size.asks)]

    with serving(model, waiting=8) as service:

        async def with_retry(connection: Connection) -> list[Answer]:
            answers = [await connection.post("/v2/rerank", next(requests))]
            while answers[-1].status == 429:
                await asyncio.sleep(answers[-1].retry_after or 0)
                other = await Connection.to(service.port)  # idle ones are closed after some seconds
                answers.append(await other.post("/v2/rerank", next(requests)))
                await other.close()
            return answers

        single = clients(service.port, size.overload, without_retry)
        retried = clients(service.port, size.overload, with_retry)
    rejected = [answer for answer in single if answer.status == 429]
    return {
        "clients": size.overload,
        "sent": size.overload * size.asks,
        "answered": len(single),
        "served": sum(answer.status == 200 for answer in single),
        "rejected": len(rejected),
        "with retry-after": sum(answer.retry_after is not None for answer in rejected),
        "ms to reject": median([1000 * answer.seconds for answer in rejected] or [0]),
        "retrying clients served": sum(answer.status == 200 for answer in retried),
        "their requests": len(retried),
    }


def redraw(port: int) -> Row:
    """Ask a question, then the same with other β."""

    async def ask(connection: Connection) -> list[Answer]:
        return [
            await connection.post("/v1/ask", json.dumps({"question": "who kalo?", **beta}).encode())
            for beta in ({}, *({"decode": "sets", "beta": beta} for beta in BETAS))
        ]

    first, *others = clients(port, 1, ask)
    assert {first.status, *(other.status for other in others)} == {200}
    times = [1000 * other.seconds for other in others]
    return {"first ms": 1000 * first.seconds, "again ms": median(times), "slowest ms": max(times)}


def memory(model: Path, size: Load) -> Row:
    """Measure the process after every tenth of many requests."""
    requests, part = bodies(5, 10), size.requests // 10

    async def ask(connection: Connection) -> list[Answer]:
        return [await connection.post("/v2/rerank", next(requests)) for _ in range(part // 8)]

    with serving(model) as service:
        sizes = []
        answers: list[Answer] = []
        for _ in range(10):
            answers += clients(service.port, 8, ask)
            sizes.append(service.resident())
    assert all(answer.status == 200 for answer in answers), "a request was not answered"
    return {
        "requests": len(answers),
        "MB": sizes,
        "growth of the last half MB": sizes[-1] - sizes[4],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="a tiny model and little load, to try")
    parser.add_argument("--passages", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tiny = tiny_model(Path(folder))
        size = Load(options.passages, options.seconds, options.requests, 20, CLIENTS[-1])
        size, model = (Load(3, 0.1, 160, 2, 16), tiny) if options.tiny else (size, BUNDLED_MODEL)
        rows, again = load(model, size)
        report: Row = {
            "passages": size.passages,
            "rows": rows,
            "redraw": again,
            "overload": overload(model, size),
            "memory": memory(tiny, size),
        }
    for name in ("redraw", "overload", "memory"):
        print(f"{name}: {json.dumps(report[name])}")
    command = " ".join(["python", *sys.argv])
    report |= manifest(command, {}, time.perf_counter() - began, packages=PACKAGES)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
