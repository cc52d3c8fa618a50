"""Connections that cannot be held open for nothing, and not in any number by one client."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of a server's connections, and how many each client has open."""

    most: int  # of a client
    headers: float  # seconds for the headers of a request, also of the next one
    reading: float  # seconds in which a client takes what is sent to it
    open: Counter[str] = field(default_factory=Counter)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with limits. A body and its response have the request's own deadline."""

    def __init__(
        self,
        limits: ConnectionLimits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits, self._key = limits, ""
        self._wait = 0.0  # for which the clock runs; 0 for none
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless its client has too many."""
        super().connection_made(transport)
        open, most = self._limits.open, self._limits.most
        self._key = client_key(self.client[0] if self.client else "")
        open[self._key] += 1
        if open[self._key] > most:
            message = b'{"message": "%d connections are open already; close some"}' % most
            transport.write(_TOO_MANY % (len(message), message))
            transport.close()
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._limits.open[self._key] -= 1
        if not self._limits.open[self._key]:
            del self._limits.open[self._key]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what has arrived; the headers of a request stop the clock, parts of them do not."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._set_timer()

    def on_response_complete(self) -> None:
        """Start the clock of the next request."""
        super().on_response_complete()
        self._set_timer()

    def pause_writing(self) -> None:
        """Start the clock of a client that has much to read."""
        super().pause_writing()
        self._set_timer()

    def resume_writing(self) -> None:
        """Stop it."""
        super().resume_writing()
        self._set_timer()

    def _set_timer(self) -> None:
        is_busy = self.cycle is not None and not self.cycle.response_complete
        wait = 0.0 if is_busy else self._limits.headers
        if self.flow.write_paused:
            wait = self._limits.reading
        if wait == self._wait:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wait = wait
        self._timer = self.loop.call_later(wait, self.transport.abort) if wait else None


def client_key(host: str) -> str:
    """Return what counts as one client: an address, of IPv6 its network.

    >>> client_key("192.0.2.7"), client_key("2001:db8::1:2"), client_key("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::', '192.0.2.7')
    """
    try:
        address = ip_address(host)
    except ValueError:  # of a Unix socket
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False).network_address)
