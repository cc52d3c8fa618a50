"""`jpr serve` at work: the service on its address until it is told to end."""

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from jpr.errors import ConfigError
from jpr.serve.gate import LOCAL, Door
from jpr.serve.http import make_app
from jpr.serve.log import tell
from jpr.serve.service import Service

_CONNECTIONS = 1000
"""Open at once at most; more are closed with 503."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service is."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 for any that is free."""

    def bind(self) -> socket.socket:
        """Take the address, or say why not."""
        try:
            info = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            bound = socket.create_server(info[4][:2], family=info[0], backlog=2048)
        except OSError as error:
            reason = str(error.strerror or error).partition(" (while attempting")[0]
            told = f"{self.host}:{self.port}: {reason}"
            raise ConfigError(f"{told}; take another --host or --port") from error
        return bound

    @property
    def is_local(self) -> bool:
        """Whether only this machine can come in."""
        return self.host in LOCAL

    def door(self, token: str | None) -> Door:
        """Return who may come in: of this machine, and without a token, by its names alone."""
        return Door(token, LOCAL if self.is_local and token is None else ())


def serve(
    service: Service,
    address: Address,
    token: str | None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way; new requests are refused.

    `ready` is told the URL.
    """
    with address.bind() as bound:
        server = server_of(service, address.door(token))
        host, port = bound.getsockname()[:2]
        url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again at the end
        tell("serving", url=url, model=service.model, token=token is not None)
        ready(url)
        asyncio.run(server.serve(sockets=[bound]))
    tell("ended")


def server_of(service: Service, door: Door) -> uvicorn.Server:
    """Return the HTTP server of a service."""
    return uvicorn.Server(
        uvicorn.Config(
            make_app(service, door),
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=int(service.limits.seconds) + 1,
        )
    )
