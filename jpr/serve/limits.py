"""The limits of a service, and those of its machine."""

import errno
from dataclasses import dataclass, fields

from jpr.errors import ConfigError

FULL = "the disk of the service is full; try again later"
_LACKING = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "too many open files; try again later"),
    errno.ENOMEM: "too little memory; try again later",
}


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of a service. Tokens need none: a model's windows of passages are limited."""

    body: int = 16 << 20
    """Bytes of a request body; more are not read."""
    passages: int = 1000
    """Passages in a request or in its response."""
    characters: int = 2_000_000
    """Characters of all texts of a request together."""
    waiting: int = 32
    """Requests running or queued; further ones are rejected with 429 and Retry-After. A client
    that has none is accepted until there are twice that number."""
    seconds: float = 60.0
    """Time for a request, from its first byte to its response."""
    batch: int = 8
    """Requests that the model processes together."""
    values: int = 50_000
    """Values in the JSON of a request."""
    connections: int = 100
    """Open connections of a client's address."""
    idle: float = 10.0
    """Time for the headers of a request, on a connection that is new or has had a response."""
    corpora: int = 8
    """Uploaded corpora kept; a new one replaces the least recently used."""
    corpus_passages: int = 2000
    """Passages of an uploaded corpus."""

    def __post_init__(self) -> None:
        for limit in fields(ServiceLimits):
            if not (value := getattr(self, limit.name)) > 0:
                raise ConfigError(f"{limit.name} = {value}; it must be above 0")


@dataclass(frozen=True, slots=True)
class ServiceSettings(ServiceLimits):
    """The limits of the service over HTTP, and who may send requests."""

    hosts: tuple[str, ...] = ()
    """Names of the service, besides localhost and addresses, that requests may use."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies, whose X-Forwarded-For names the client."""
    insecure: bool = False
    """Whether other machines may send requests without a token."""


class CannotStoreError(Exception):
    """The service cannot keep what a client sent, which is not the client's fault."""


def lacking(error: BaseException | None) -> str | None:
    """Return what the machine lacked, if that is why an error was raised, however it was reported.

    >>> lacking(OSError(errno.ENOSPC, "No space left on device", "/srv/index"))
    'the disk of the service is full; try again later'
    """
    problem = None
    while error is not None:
        if isinstance(error, CannotStoreError):
            problem = "the service cannot store it; try again later"
        if isinstance(error, MemoryError):
            return _LACKING[errno.ENOMEM]
        if isinstance(error, OSError) and error.errno in _LACKING:
            return _LACKING[error.errno]
        error = error.__cause__ or error.__context__
    return problem
