"""A service under many kinds of bad clients at once, for a given time, on loopback.

python benchmarks/mixed_attacks.py [--seconds 300] [--out FILE.json]

`jpr serve` runs with the bundled model and two tokens. Meanwhile, each from its own address:

- one honest client, with a token of its own, reranks five passages, again and again;
- clients with the other token send the requests of benchmarks/attacks.py, leave in the middle of
  long requests and uploads, or send twenty requests at a time;
- clients without a token guess tokens, and open connections without sending anything.

Printed are the statuses that each kind of client got, the times of the honest client and of
/healthz, the memory of the process in the course of time, and how long it took to end on SIGTERM,
which comes while the clients are at work.
"""

import argparse
import json
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from threading import Event, Lock, Thread

import httpx
from served import WORDS, Running, text

from jpr.io.manifest import manifest
from tests.serve.hostile_requests import REQUESTS

CLIENTS = {"hostile": 2, "leaving": 2, "flooding": 20, "uploading": 1, "guessing": 1, "silent": 1}
PATIENCE = 90.0
LONG = 500  # passages of a request whose client leaves
UNKNOWN = {"healthz", "guessing", "silent"}  # have no token
Row = dict[str, object]
Tokens = dict[str, str]


@dataclass(slots=True)
class Seen:
    """What the clients of one kind got; threads share it."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def add(self, status: str, seconds: float) -> None:
        """Count a response."""
        with self.lock:
            self.statuses[status] += 1
            self.seconds.append(seconds)

    def row(self) -> Row:
        """Return the statuses, and the times in milliseconds."""
        times = [1000 * one for one in self.seconds]
        cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
        parts = {f"p{at} ms": round(cuts[at - 1]) for at in (50, 99) if cuts}
        slowest = {"max ms": round(max(times))} if times else {}
        return {"statuses": dict(sorted(self.statuses.items())), **parts, **slowest}


class Client:
    """A client with an address of its own."""

    def __init__(self, url: str, source: str, token: str, seen: Seen) -> None:
        self._seen, self.draw = seen, random.Random(source)
        self.host, self.port = url.removeprefix("http://").split(":")
        transport = httpx.HTTPTransport(local_address=source)
        head = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=url, transport=transport, headers=head)
        self.source = source

    def send(self, method: str, path: str, timeout: float = PATIENCE, **given: object) -> None:
        """Send a request and count the response, or why there is none."""
        began = time.monotonic()
        try:
            sent = self._client.request(method, path, timeout=timeout, **given)  # type: ignore[arg-type]  # as httpx takes it
            status = str(sent.status_code)
        except httpx.HTTPError as error:
            status = type(error).__name__
        self._seen.add(status, time.monotonic() - began)

    def passages(self, count: int) -> Row:
        """Return the body of a request with new passages."""
        documents = [text(self.draw, WORDS) for _ in range(count)]
        return {"query": f"who {text(self.draw, 5)}?", "documents": documents}


def honest(client: Client) -> None:
    """Rerank five passages."""
    client.send("POST", "/v2/rerank", json=client.passages(5))
    time.sleep(0.2)


def healthz(client: Client) -> None:
    """Ask whether the service is alive."""
    client.send("GET", "/healthz")
    time.sleep(0.05)


def hostile(client: Client) -> None:
    """Send one of the requests of benchmarks/attacks.py."""
    path, body, content_type = client.draw.choice(list(REQUESTS.values()))()
    client.send("POST", path, content=body, headers={"content-type": content_type})


def leaving(client: Client) -> None:
    """Leave in the middle of a long request."""
    client.send("POST", "/v2/rerank", client.draw.uniform(0.2, 2), json=client.passages(LONG))


def flooding(client: Client) -> None:
    """Ask something new."""
    client.send("POST", "/v1/ask", json={"question": f"who {text(client.draw, 8)}?"})
    time.sleep(0.1)


def uploading(client: Client) -> None:
    """Leave while a file is made a corpus."""
    rows = "\n".join(text(client.draw, 50) for _ in range(1000))
    client.send(
        "POST", "/v1/corpora", client.draw.uniform(0.5, 5), files={"files": ("a.txt", rows)}
    )


def guessing(client: Client) -> None:
    """Guess a token."""
    guess = {"authorization": f"Bearer {secrets.token_urlsafe()}"}
    client.send("POST", "/v1/ask", json={"question": "who?"}, headers=guess)
    time.sleep(0.05)


def silent(client: Client) -> None:
    """Open 150 connections and send nothing for two seconds."""
    with ExitStack() as opened, suppress(OSError):
        for _ in range(150):
            where = client.host, int(client.port)
            opened.enter_context(socket.create_connection(where, 10, (client.source, 0)))
        time.sleep(2)
    client.send("GET", "/healthz")


KINDS: tuple[Callable[[Client], None], ...] = (
    honest,
    healthz,
    hostile,
    leaving,
    flooding,
    uploading,
    guessing,
    silent,
)


def attacked(service: "subprocess.Popen[str]", url: str, seconds: float, tokens: Tokens) -> Row:
    """Let all clients loose for some seconds, then stop the service; return what they got."""
    running, ended = Running(int(url.rpartition(":")[2]), service.pid), Event()
    seen, megabytes = {kind.__name__: Seen() for kind in KINDS}, []

    def repeat(kind: Callable[[Client], None], source: str) -> None:
        name = kind.__name__
        token = tokens.get(name, "" if name in UNKNOWN else tokens["others"])
        client = Client(url, source, token, seen[name])
        while not ended.is_set():
            kind(client)

    jobs = [kind for kind in KINDS for _ in range(CLIENTS.get(kind.__name__, 1))]
    with ThreadPoolExecutor(len(jobs)) as threads:
        end = time.monotonic() + seconds
        sent = [threads.submit(repeat, one, f"127.0.0.{at}") for at, one in enumerate(jobs, 2)]
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, seconds / 20))
            megabytes.append(round(running.resident()))
        ended.set()
        stopped = time.monotonic()
        service.terminate()
        status = service.wait(90)
        took = round(time.monotonic() - stopped, 1)
    for one in sent:
        one.result()
    rows = {name: one.row() for name, one in seen.items()}
    return {
        "seconds": seconds,
        "MB": megabytes,
        "clients": rows,
        "exit status": status,
        "seconds to end": took,
    }


def main() -> None:
    """Start the service, attack it, stop it, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    tokens = {name: secrets.token_urlsafe() for name in ("honest", "others")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokens")
        file.touch(0o600)
        file.write_text("\n".join(f"{name} {token}" for name, token in tokens.items()))
        command = [sys.executable, "-m", "jpr", "serve", "--port", "0", "--token-file", str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
            assert service.stderr is not None
            url = json.loads(service.stderr.readline())["url"].rstrip("/")
            Thread(target=list, args=[service.stderr], daemon=True).start()  # or it would fill up
            try:
                report = attacked(service, url, options.seconds, tokens)
            finally:
                service.kill()
    print(json.dumps(report, indent=1))
    if options.out:
        shown = " ".join(["python", *sys.argv])
        report |= manifest(shown, {}, time.perf_counter() - began, packages=("fastapi", "uvicorn"))
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
