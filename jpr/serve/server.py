"""The HTTP server of `jpr serve`."""

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from jpr.errors import ConfigError
from jpr.serve.app import make_app
from jpr.serve.logs import log_event
from jpr.serve.middleware import LOCAL, AccessPolicy
from jpr.serve.service import Service


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service listens."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 for any free port

    def bind(self) -> socket.socket:
        """Return a socket that listens there."""
        try:
            info = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            bound = socket.create_server(info[4][:2], family=info[0], backlog=2048)
        except OSError as error:
            reason = str(error.strerror or error).partition(" (while attempting")[0]
            where = f"{self.host}:{self.port}"
            raise ConfigError(f"{where}: {reason}; use another --host or --port") from error
        # Connections inherit it; without it, each response on an open one takes 40 ms more.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOCAL

    def policy(self, token: str | None) -> AccessPolicy:
        """Return who may connect; a local service without a token checks host names."""
        return AccessPolicy(token, LOCAL if self.is_local and token is None else ())


def serve(
    service: Service,
    address: Address,
    token: str | None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish running requests; call `ready` with the URL."""
    with address.bind() as bound:
        server = make_server(service, address.policy(token))
        host, port = bound.getsockname()[:2]
        url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again at the end
        log_event("serving", url=url, model=service.name, token=token is not None)
        ready(url)
        asyncio.run(server.serve(sockets=[bound]))
    log_event("ended")


def make_server(service: Service, policy: AccessPolicy) -> uvicorn.Server:
    """Return the HTTP server of a service."""
    return uvicorn.Server(
        uvicorn.Config(
            make_app(service, policy),
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=1000,  # further connections are closed with 503
            timeout_graceful_shutdown=int(service.limits.seconds) + 1,
        )
    )
