"""Who may send requests: those with the token, by the right host name, from no other site."""

from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

LOCAL = ("127.0.0.1", "localhost", "::1")
_PROTECTED = ("/v1/", "/v2/", "/metrics")
"""Parts of paths that need the token even for GET, wherever the app is mounted; the page,
`/healthz` and `/openapi.json` reveal nothing of any document."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Which requests are allowed."""

    token: str | None = None  # required as `Authorization: Bearer TOKEN`; None for no such check
    hosts: tuple[str, ...] = ()
    """Allowed values of the Host header; empty for any. They keep out pages of other sites whose
    name was pointed at this machine (DNS rebinding)."""

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Raise HTTPException 403 or 401 for a request that is not allowed."""
        host, origin = headers.get("host", ""), headers.get("origin")
        try:
            name, site = urlsplit(f"//{host}").hostname, urlsplit(origin or "").netloc
        except ValueError:
            name = site = None
        if origin is not None and site != host:
            raise HTTPException(403, "requests from pages of other sites are not allowed")
        if self.hosts and name not in self.hosts:
            raise HTTPException(403, "unknown host name; use the service's own address")
        is_public = method in ("GET", "HEAD") and not any(part in path for part in _PROTECTED)
        if self.token is None or is_public:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = compare_digest(given.strip(" \t").encode("latin-1"), self.token.encode())
        if scheme.lower() != "bearer" or not same:
            challenge = {"www-authenticate": "Bearer"}
            raise HTTPException(401, "send the token: Authorization: Bearer TOKEN", challenge)
