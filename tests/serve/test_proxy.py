"""The nginx configuration of docs/howto/proxy.md at work, with TLS, in front of a service."""

import json
import logging
import os
import re
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from time import monotonic

import httpx
import pytest

from jpr.pipeline import Pipeline
from jpr.serve.limits import ServiceSettings
from jpr.serve.logs import JsonLines
from tests.serve.running import QUESTION, running
from tests.serve.test_fairness import ADA, STAFF, slowed
from tests.serve.test_middleware import wait_for, waiting

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "proxy.md"
NAME = "jpr.example.org"
NGINX = which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
pytestmark = pytest.mark.skipif(
    not NGINX or not which("openssl"), reason="there is no nginx or no openssl here"
)


@dataclass(frozen=True, slots=True)
class Proxied:
    """A service behind nginx."""

    service: str
    ports: tuple[int, int]  # of HTTP and HTTPS
    context: ssl.SSLContext

    def client(self, source: str, **headers: str) -> httpx.Client:
        """Return a client with an address of its own, as nginx limits each address."""
        return httpx.Client(
            transport=httpx.HTTPTransport(verify=self.context, local_address=source),
            base_url=f"https://127.0.0.1:{self.ports[1]}",
            headers={"host": NAME, "authorization": f"Bearer {ADA}", **headers},
            timeout=30,
        )


@contextmanager
def proxied(pipeline: Pipeline, folder: Path) -> Iterator[Proxied]:
    """Run a service and nginx, as the page says, but with free ports and a shorter timeout."""
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1"]
    files = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/fullchain.pem"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subprocess.run(["openssl", "req", "-x509", *key, *names, *files], check=True)
    context = ssl.create_default_context(cafile=folder / "fullchain.pem")
    settings = ServiceSettings(hosts=(NAME,), proxies=("127.0.0.1",))
    with running(pipeline, tokens=STAFF, settings=settings) as service:
        ports = free_port(), free_port()
        changes = {
            "127.0.0.1:8080": service.removeprefix("http://"),
            "listen 80;": f"listen 127.0.0.1:{ports[0]};",
            "listen 443 ssl;": f"listen 127.0.0.1:{ports[1]} ssl;",
            "/etc/ssl/jpr": str(folder),
            "client_header_timeout 10s": "client_header_timeout 1s",
        }
        (folder / "nginx.conf").write_text(configuration(folder, changes))
        command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as nginx:
            try:
                wait_for(lambda: all(map(is_open, ports)))
                yield Proxied(service, ports, context)
            finally:
                nginx.terminate()


def configuration(folder: Path, changes: dict[str, str]) -> str:
    """Return a whole configuration of nginx, with the page's as its part."""
    found = re.search(r"^```nginx\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    text = found[1]
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    main = f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;"
    return f"{main}\nevents {{}}\nhttp {{\naccess_log off;\n{paths}\n{text}}}\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def proxy(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied(pipeline, tmp_path_factory.mktemp("proxy")) as running_one:
        yield running_one


def test_a_request_over_tls_reaches_the_service_with_its_address(
    proxy: Proxied, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jpr.serve")
    claimed = {"x-forwarded-for": "192.0.2.1", "origin": f"https://{NAME}"}
    with proxy.client("127.0.0.11", **claimed) as client:
        assert client.post("/v1/ask", json={"question": QUESTION}).is_success
        assert client.get("/").headers["strict-transport-security"]
        assert client.get("/metrics").status_code == 404
        assert client.get("/healthz", headers={"host": "other.example"}).status_code == 403
        wrong = {"authorization": "Bearer guessed"}
        assert client.post("/v1/ask", json={}, headers=wrong).status_code == 401
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    sent = [line for line in lines if line["event"] == "request"]
    assert {line["client"] for line in sent} == {"127.0.0.11"}
    assert [line.get("token") for line in sent] == ["ada", None, None, None]


def test_http_leads_to_https(proxy: Proxied) -> None:
    answer = httpx.get(f"http://127.0.0.1:{proxy.ports[0]}/v1/ask?a=b", headers={"host": NAME})
    assert (answer.status_code, answer.headers["location"]) == (301, f"https://{NAME}/v1/ask?a=b")


def test_large_bodies_and_many_requests_end_at_the_proxy(proxy: Proxied) -> None:
    with proxy.client("127.0.0.12") as client:
        large = client.post("/v2/rerank", content=b" " * ((16 << 20) + 1))
        assert large.status_code == 413
        assert large.json()["message"] == large.json()["detail"]
        answers = [client.get("/healthz") for _ in range(60)]
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) == {200, 429}
        assert counts[200] >= 20
        busy = next(answer for answer in answers if answer.status_code == 429)
        assert int(busy.headers["retry-after"]) > 0
        assert busy.json()["message"] == busy.json()["detail"]
    with proxy.client("127.0.0.13") as client:
        assert client.get("/healthz").is_success


def test_a_client_that_sends_no_headers_is_cut_off(proxy: Proxied) -> None:
    address, begun = ("127.0.0.1", proxy.ports[1]), monotonic()
    with (
        socket.create_connection(address, 10) as plain,
        proxy.context.wrap_socket(plain, server_hostname=NAME) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        while connection.recv(1000):
            pass
    assert monotonic() - begun < 5


def test_nothing_is_read_for_a_client_that_left_the_proxy(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    slow, scorer = slowed(pipeline, 0.05)
    body = {"query": QUESTION, "documents": ["red"] * 1000}
    with proxied(slow, tmp_path) as proxy:
        with proxy.client("127.0.0.14") as client, pytest.raises(httpx.ReadTimeout):
            client.post("/v2/rerank", json=body, timeout=1)
        wait_for(lambda: waiting(proxy.service, ADA) == 0)
        read = scorer.read
        assert 0 < read < 100
        with proxy.client("127.0.0.15") as client:
            assert client.post("/v2/rerank", json={**body, "documents": ["red"]}).is_success
        assert scorer.read - read <= 4
