"""Send requests that were made to stop the service, and measure how long others wait.

python benchmarks/attacks.py [--tries 3] [--only NAME,NAME]

Each attack meets a service of its own, on loopback, with a tiny model: all its requests are sent
at once, while a client asks /healthz again and again. The table has the statuses of the attack's
requests, the slowest /healthz, the service's memory at its peak, and whether it still ran.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import httpx
from lines import line

from tests.serve.hostile_requests import REQUESTS
from tests.serve.running import make_pipeline

ROOT = Path(__file__).parents[1]
COLUMNS = {"attack": (34, ""), "healthz": (9, ".3f"), "MB": (6, ".0f"), "replies": (30, "")}
SILENT = 1000
PATIENCE = 120.0


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a service; yield its address and its process id."""
    program = [sys.executable, "-m", "tests.serve.running", str(folder)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = json.loads(process.stderr.readline())["url"].rstrip("/")
        with ThreadPoolExecutor(1) as threads:
            threads.submit(lambda: [None for _ in process.stderr or ()])  # or it would fill up
            try:
                yield url, process.pid
            finally:
                process.kill()


def probe(url: str, ended: Event) -> float:
    """Return the seconds of the slowest /healthz; infinite if one failed."""
    slowest = 0.0
    while not ended.is_set():
        start = time.monotonic()
        try:
            is_well = httpx.get(f"{url}/healthz", timeout=PATIENCE).is_success
        except httpx.HTTPError:
            is_well = False
        slowest = max(slowest, time.monotonic() - start) if is_well else float("inf")
        if not is_well:
            break
        time.sleep(0.02)
    return slowest


def send(url: str, path: str, body: bytes, content_type: str) -> str:
    """Return the status of one request, or why there is none."""
    try:
        head = {"content-type": content_type}
        return str(httpx.post(url + path, content=body, headers=head, timeout=PATIENCE).status_code)
    except httpx.HTTPError as error:
        return type(error).__name__


def stay_silent(url: str) -> Counter[str]:
    """Open connections from another address, and send nothing for three seconds."""
    host, port = url.removeprefix("http://").split(":")
    with ExitStack() as opened, suppress(ConnectionError):
        for _ in range(SILENT):
            address = (host, int(port))
            connection = socket.create_connection(address, source_address=("127.0.0.2", 0))
            opened.enter_context(connection)
        time.sleep(3)
    return Counter({"silent": SILENT})


def attacked(folder: Path, name: str, attack: Callable[[str], Counter[str]]) -> dict[str, Any]:
    """Return what an attack did to a service."""
    with service(folder) as (url, process), ThreadPoolExecutor(1) as threads:
        ended = Event()
        probing = threads.submit(probe, url, ended)
        try:
            time.sleep(0.2)
            replies = attack(url)
        finally:
            ended.set()
        status = Path(f"/proc/{process}/status").read_text()
        peak = next((row for row in status.splitlines() if row.startswith("VmHWM")), "x 0")
        shown = ", ".join(f"{n} x {reply}" for reply, n in sorted(replies.items()))
        megabytes = int(peak.split()[1]) / 1024
        return {"attack": name, "healthz": probing.result(), "MB": megabytes, "replies": shown}


def main() -> None:
    """Run the attacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    print(line(COLUMNS, {}), flush=True)
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(options.tries) as threads:
        make_pipeline(Path(home))

        def sent(request: Callable[[], tuple[str, bytes, str]]) -> Callable[[str], Counter[str]]:
            made = request()
            each = range(options.tries)
            return lambda url: Counter(threads.map(lambda _: send(url, *made), each))

        attacks = {name: sent(request) for name, request in REQUESTS.items()}
        for name, attack in {**attacks, "silent connections": stay_silent}.items():
            if not chosen or name in chosen:
                print(line(COLUMNS, attacked(Path(home), name, attack)), flush=True)


if __name__ == "__main__":
    main()
