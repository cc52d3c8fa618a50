"""A server on this machine that speaks OpenAI's chat protocol, or breaks it on request."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

Act = Callable[["Handler"], None]
"""What a server does with one request."""


class Handler(BaseHTTPRequestHandler):
    """Records a request and does what the server's next act says."""

    server: "FakeLlm"
    body: Any

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.next_act(self)(self)

    def do_GET(self) -> None:
        self.server.next_act(self)(self)

    def log_message(self, format: str, *args: object) -> None:  # the test's output stays clean
        pass

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class FakeLlm(ThreadingHTTPServer):
    """Does its acts one after another, the last again and again."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, acts: Sequence[Act]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[Handler] = []
        self.over = Event()
        self._acts, self._lock = acts, Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def next_act(self, request: Handler) -> Act:
        with self._lock:
            self.requests.append(request)
            return self._acts[min(len(self.requests), len(self._acts)) - 1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that give up are what is tested."""


@contextmanager
def serving(*acts: Act) -> Iterator[FakeLlm]:
    server = FakeLlm(acts)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def says(content: object) -> Act:
    """Reply with this content: the text of a message, which the protocol wraps."""
    reply = {"choices": [{"message": {"role": "assistant", "content": content}}], "usage": {}}
    return lambda handler: handler.send(200, json.dumps(reply).encode())


def answers(*found: object) -> Act:
    return says(json.dumps({"answers": found}))


def fails(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Act:
    return lambda handler: handler.send(status, body, headers)


def hangs(handler: Handler) -> None:
    handler.server.over.wait(10)


def drips_body(handler: Handler) -> None:
    handler.send(200, b" ", {"Content-Length": "1000000"})
    _drip(handler, b" ")


def drips_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _drip(handler, b"x")


def _drip(handler: Handler, piece: bytes) -> None:
    while not handler.server.over.wait(0.02):
        handler.wfile.write(piece)


def floods(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b" " * (1 << 20))


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True
