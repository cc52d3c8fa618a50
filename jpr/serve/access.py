"""Who may send requests: clients with a token, by the right host name, from no other site."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from math import ceil
from time import monotonic
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from jpr.errors import ConfigError
from jpr.serve.tokens import Tokens

Key = TypeVar("Key")
Value = TypeVar("Value")
_PROTECTED = ("/v1/", "/v2/", "/metrics")
"""Parts of paths that need the token even for GET, wherever the app is mounted; the page,
`/healthz` and `/openapi.json` reveal nothing of any document."""
_WRONG, _SECONDS = 10, 5.0  # wrong tokens that a client may send at once; seconds until one more
_CLIENTS = 1024  # of which tokens are remembered


def client_key(host: str) -> str:
    """Return what counts as one client: an address, of IPv6 its network.

    >>> client_key("192.0.2.7"), client_key("::ffff:192.0.2.7"), client_key("2001:db8::1:2")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    host = str(_address(host) or host)
    try:
        return str(ip_network(f"{host}/64", strict=False))
    except ValueError:  # no mask of IPv4 has 64 bits
        return host


class WrongTokens:
    """Counts the wrong tokens of clients; of the last clients only, so that memory is bounded.

    A client beyond the limit has to wait some seconds. Right tokens that came from its address
    before are accepted meanwhile: others behind the same address cannot lock their senders out.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._spent: OrderedDict[str, float] = OrderedDict()  # until when, at the rate that may be
        self._accepted: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, client: str, name: str | None) -> None:
        """Raise HTTPException for a wrong token, whose name is None, or for too many of them."""
        if (client, name) not in self._accepted:
            wait = self._spent.get(client, 0.0) - self._clock() - (_WRONG - 1) * _SECONDS
            if wait > 0:
                seconds = str(ceil(wait))
                message = f"too many wrong tokens from this address; retry in {seconds} s"
                raise HTTPException(429, message, {"retry-after": seconds})
        if name is None:
            spent = max(self._spent.get(client, 0.0), self._clock()) + _SECONDS
            _remember(self._spent, client, spent)
            challenge = {"www-authenticate": "Bearer"}
            raise HTTPException(401, "wrong token; ask who runs the service for one", challenge)
        _remember(self._accepted, (client, name), None)


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Who may send requests, checked by their headers alone."""

    tokens: Tokens | None = None  # one is required as `Authorization: Bearer TOKEN`; None: no check
    hosts: tuple[str, ...] | None = None
    """Names that the Host header may have besides addresses; None for any. They keep out pages of
    other sites whose name was pointed at this machine (DNS rebinding)."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies, whose X-Forwarded-For names the client."""
    _wrong: WrongTokens = field(default_factory=WrongTokens)

    def __post_init__(self) -> None:
        for proxy in self.proxies:
            try:
                ip_network(proxy)
            except ValueError as error:
                problem = f"proxies = {proxy}: give an address or a network"
                raise ConfigError(f"{problem}, such as 10.0.0.0/8") from error

    def is_proxy(self, host: str) -> bool:
        """Return whether an address is that of a proxy."""
        address = _address(host)
        return bool(address) and any(address in ip_network(proxy) for proxy in self.proxies)

    def check(self, method: str, path: str, headers: Mapping[str, str], client: str = "") -> str:
        """Return the name of the client's token, "" without one.

        Raise HTTPException 403, 401 or 429 for a request that is not allowed.
        """
        self._check_site(headers.get("host", ""), headers.get("origin"))
        is_public = method in ("GET", "HEAD") and not any(part in path for part in _PROTECTED)
        if self.tokens is None or is_public:
            return ""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = given.strip(" \t").encode("latin-1")
        if scheme.lower() != "bearer" or not token:
            challenge = {"www-authenticate": "Bearer"}
            raise HTTPException(401, "send the token: Authorization: Bearer TOKEN", challenge)
        found = self.tokens.name_of(token)
        self._wrong.check(client_key(client), found)
        return found or ""

    def _check_site(self, host: str, origin: str | None) -> None:
        try:
            name, site = urlsplit(f"//{host}").hostname or "", urlsplit(origin or "").netloc
        except ValueError:
            name, site = "", None
        if origin is not None and site != host:
            raise HTTPException(403, "requests from pages of other sites are not allowed")
        if self.hosts is not None and not (name in self.hosts or _address(name)):
            raise HTTPException(403, "unknown host name; the setting hosts allows one")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is, unless it is a name, which a DNS server can point here."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped
    return is_mapped or address


def _remember(last: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    """Set the value of a key, and forget the oldest one if there are too many."""
    last.pop(key, None)
    last[key] = value
    if len(last) > _CLIENTS:
        last.popitem(last=False)
