"""Connections that cannot be held open for nothing, and not in any number by one client."""

import asyncio
from collections import Counter
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from jpr.serve.access import AccessPolicy, client_key
from jpr.serve.limits import ServiceLimits

_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with limits on time and number; a request's body has the request's own deadline."""

    def __init__(
        self,
        limits: ServiceLimits,
        policy: AccessPolicy,
        open: Counter[str],
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits, self._policy, self._open, self._key = limits, policy, open, ""
        self._state: tuple[bool, bool] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless its client has too many; a proxy has those of others."""
        super().connection_made(transport)
        most, host = self._limits.connections, self.client[0] if self.client else ""
        self._key = client_key(host)
        self._open[self._key] += 1
        if self._open[self._key] > most and not self._policy.is_proxy(host):
            message = b'{"message": "%d connections are open already; close some"}' % most
            transport.write(_TOO_MANY % (len(message), message))
            transport.close()
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._open -= Counter([self._key])  # in place, and without those that have none left
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
        state = is_busy, self.flow.write_paused
        if state == self._state:
            return
        self._state = state
        if self._timer is not None:
            self._timer.cancel()
        if self.flow.write_paused or not is_busy:
            wait = self._limits.seconds if self.flow.write_paused else self._limits.idle
            self._timer = self.loop.call_later(wait, self.transport.abort)
