"""Requests of a few megabytes that stopped the service for seconds or took gigabytes."""

import json
from collections.abc import Callable
from typing import Any

MB = 1 << 20
JSON = "application/json"
FORM = "multipart/form-data; boundary=x"
HostileRequest = tuple[str, bytes, str]  # a path, a body and its Content-Type


def rerank(**fields: Any) -> HostileRequest:  # noqa: ANN401  any JSON
    return "/v2/rerank", json.dumps({"query": "a", **fields}).encode(), JSON


def form(content: bytes, name: bytes = b"", content_type: str = FORM) -> HostileRequest:
    """One part: a file, or a field if it has no name."""
    file = b'; filename="%s"' % name if name else b""
    head = b'--x\r\nContent-Disposition: form-data; name="files"%s\r\n\r\n' % file
    return "/v1/corpora", head + content + b"\r\n--x--\r\n", content_type


REQUESTS: dict[str, Callable[[], HostileRequest]] = {
    "2 MB of numbers as documents": lambda: rerank(documents=[0] * (MB * 2 // 3)),
    "8 MB of numbers as documents": lambda: rerank(documents=[0] * (MB * 8 // 3)),
    "8 MB of empty lists": lambda: rerank(documents=[[[]] * (MB * 2)]),
    "100k unknown fields": lambda: (
        "/v1/ask",
        json.dumps({f"field{at}": at for at in range(100_000)}).encode(),
        JSON,
    ),
    "5 MB text in 600 rank_fields": lambda: rerank(
        documents=[{"text": "a" * 5 * MB}], rank_fields=["text"] * 600
    ),
    "30k rank_fields of 1000 documents": lambda: rerank(
        documents=[{"text": ""}] * 1000, rank_fields=["text"] * 30_000
    ),
    "form of 1 MB in punycode": lambda: form(
        b"a" * (MB - 1), content_type=FORM + "; charset=punycode"
    ),
    "HTML of 1 MB in punycode": lambda: form(b"<meta charset=punycode>-" + b"a" * MB, b"a.html"),
    "15 MB of line ends in a form": lambda: form(b"\r\n--" * (15 * MB // 4), b"a.txt"),
    "15 MB of headers in a form": lambda: (
        "/v1/corpora",
        b"--x\r\n" + b"a: b\r\n" * (15 * MB // 6),
        FORM,
    ),
    "15 MB of form fields": lambda: (
        "/v1/corpora",
        b"a&" * (15 * MB // 2),
        "application/x-www-form-urlencoded",
    ),
}
