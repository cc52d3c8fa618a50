"""`jpr serve` killed under load, for benchmarks/faults.py.

Clients ask a folder of documents, upload files and ask those. A response is either that of an
undisturbed service, or the connection ends. A restarted service answers as before and, after
SIGTERM, leaves no files behind, not even those of the killed ones.
"""

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread

Start = Callable[[Path, Sequence[str]], subprocess.Popen[bytes]]
Row = dict[str, object]
CLIENTS = 4
LOAD = 1.0
"""Seconds of load, at most, before a kill."""
QUESTIONS = [f"which colour {word} ?" for word in ("river", "castle", "harbour", "tower")]
FILES = {"one.txt": "red which colour river", "two.txt": "the old bridge is green"}
_EDGE = "edge-of-a-part"
_SERVE = ["serve", "--docs", "docs", "--port", "0"]


def port_of(process: subprocess.Popen[bytes], home: Path) -> int:
    """Return the port of a service, from its log."""
    while b"\n" not in (said := (home / "stderr").read_bytes()):
        if process.poll() is not None:
            raise SystemExit(said.decode())
        time.sleep(0.01)
    url = json.loads(said.splitlines()[0])["url"]
    return int(url.rstrip("/").rpartition(":")[2])


def post(
    port: int, path: str, body: bytes, kind: str = "application/json"
) -> tuple[int, dict[str, str]]:
    """Send a request and return status and answer; an error where the connection ends."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def ask(port: int, question: str, corpus: str | None = None) -> object:
    """Ask the documents, or a corpus."""
    asked = {"question": question, **({"corpus": corpus} if corpus else {})}
    return post(port, "/v1/ask", json.dumps(asked).encode())


def send_and_ask(port: int) -> object:
    """Make a corpus of files, and ask it."""
    parts = "".join(
        f'--{_EDGE}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
        f"{text}\r\n"
        for name, text in FILES.items()
    )
    kind = f"multipart/form-data; boundary={_EDGE}"
    status, made = post(port, "/v1/corpora", f"{parts}--{_EDGE}--\r\n".encode(), kind)
    return status, made["passages"], ask(port, QUESTIONS[0], made["corpus"])


def answers(port: int) -> dict[str, object]:
    """Return the responses to everything that clients ask."""
    return {**{one: ask(port, one) for one in QUESTIONS}, "files": send_and_ask(port)}


class Client(Thread):
    """Asks until the connection ends, and checks the responses."""

    def __init__(self, port: int, right: dict[str, object], seed: int) -> None:
        super().__init__()
        self._port, self._right = port, right
        self._draw = random.Random(seed)
        self.answered = self.wrong = 0
        self.error = ""

    def run(self) -> None:
        """Ask."""
        while True:
            one = self._draw.choice(list(self._right))
            try:
                got = send_and_ask(self._port) if one == "files" else ask(self._port, one)
            except (OSError, HTTPException) as error:
                self.error = type(error).__name__
                return
            self.answered += 1
            self.wrong += got != self._right[one]


def killed_services(reset: Callable[[], Path], start: Start, times: int, seed: int) -> Row:
    """Kill a service under load and start it again, `times` times."""
    home, draw = reset(), random.Random(f"{seed} serve")
    process = start(home, _SERVE)
    began = time.monotonic()
    right = answers(port_of(process, home))
    seconds = time.monotonic() - began
    problems, kills, same, answered, left = ended(process, home), 0, 0, 0, 0
    for number in range(times):
        process = start(home, _SERVE)
        port = port_of(process, home)
        clients = [Client(port, right, number * CLIENTS + at) for at in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(draw.uniform(0, LOAD))
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        for client in clients:
            client.join()
            answered += client.answered
        wrong = sum(client.wrong for client in clients)
        process = start(home, _SERVE)
        is_same = answers(port_of(process, home)) == right and not wrong
        same += is_same
        found = ended(process, home)
        left += bool(found)
        problems += [*found, *([] if is_same else [f"{wrong} answers were wrong, or later ones"])]
    return {
        "job": "serve",
        "seconds": seconds,
        "runs": times,
        "kills": kills,
        "starting": 0,
        "same": same,
        "left over": left,
        "answered": answered,
        "problems": sorted(set(problems)),
    }


def ended(process: subprocess.Popen[bytes], home: Path) -> list[str]:
    """Stop a service with SIGTERM, and return what is wrong."""
    process.send_signal(signal.SIGTERM)
    problems = [f"it ended with {code}"] if (code := process.wait()) else []
    left = {path.name[:12] for path in (home / "temporary").iterdir()} - {".ses"}  # onnxruntime's
    return [*problems, *([f"left behind: {left}"] if left else [])]
