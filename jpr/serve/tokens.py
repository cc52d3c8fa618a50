"""The tokens that clients send, by name; those of a file are read again while the service runs."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from threading import Event, Thread

from jpr.errors import FormatError, JprError
from jpr.serve.logs import log_event

MIN_BYTES = 16  # of a token
_SECONDS = 1.0  # between two readings of the file
_MAKE = """python -c "import secrets; print(secrets.token_urlsafe())" makes one"""


class Tokens:
    """Tokens, of which only the hashes are kept; threads may share them."""

    def __init__(self, read: Callable[[], dict[bytes, str]], *, changes: bool = False) -> None:
        """Read the names of tokens by their hashes; they may change if `changes`."""
        self._read, self._changes, self._problem = read, changes, ""
        self._names = read()

    @classmethod
    def of_text(cls, text: str, where: str) -> "Tokens":
        """Return the tokens of a text that came from somewhere; they never change."""
        return cls(lambda: parse_tokens(text, where))

    @classmethod
    def of_file(cls, file: Path) -> "Tokens":
        """Return the tokens of a file; a pipe is read once."""
        return cls(lambda: parse_tokens(_private_text(file), file), changes=file.is_file())

    def name_of(self, token: bytes) -> str | None:
        """Return the name of a token, or None if it is wrong, after the same time for all."""
        given = sha256(token).digest()
        names = [name for known, name in self._names.items() if compare_digest(known, given)]
        return names[0] if names else None

    def read_again(self) -> None:
        """Take the tokens that are there now; if they are invalid, keep those before."""
        problem = ""
        try:
            if (names := self._read()) != self._names:
                self._names = names
                log_event("tokens", names=sorted(set(names.values())))
        except JprError as error:
            problem = str(error)
            if problem != self._problem:
                log_event("tokens", problem=problem)
        self._problem = problem

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Read them again every second, in a thread: a disk may take its time."""
        ended = Event()

        def watch() -> None:
            while not ended.wait(_SECONDS):
                self.read_again()

        if self._changes:
            Thread(target=watch, name="jpr-tokens", daemon=True).start()
        try:
            yield
        finally:
            ended.set()


def parse_tokens(text: str, where: str | Path) -> dict[bytes, str]:
    """Return the name of each token by its hash: a line each, `NAME TOKEN`, or one token alone.

    Several tokens may have one name, for example an old and a new one.

    >>> names = parse_tokens("# staff\\nada 0123456789abcdef\\nbob fedcba9876543210\\n", "tokens")
    >>> names[sha256(b"fedcba9876543210").digest()]
    'bob'
    """
    names: dict[bytes, str] = {}
    lines = [(at, line.split()) for at, line in enumerate(text.splitlines(), start=1)]
    used = [(at, words) for at, words in lines if words and not words[0].startswith("#")]
    if not used:
        raise FormatError(where, 0, f"has no token; write a line NAME TOKEN. {_MAKE}")
    for at, words in used:
        if len(words) > 2 or (len(words) == 1 and len(used) > 1):
            raise FormatError(where, at, "is not NAME TOKEN; write a line for each token")
        token = words[-1].encode("utf-8", "surrogateescape")
        if len(token) < MIN_BYTES:
            problem = f"the token has {len(token)} bytes; use at least {MIN_BYTES}. {_MAKE}"
            raise FormatError(where, at, problem)
        name = words[0] if len(words) == 2 else ""
        if names.setdefault(sha256(token).digest(), name) != name:
            raise FormatError(where, at, "the token has two names; write a line for each token")
    return names


def _private_text(file: Path) -> str:
    """Return the text of a file that other users of the machine cannot read."""
    try:
        with file.open(encoding="utf-8-sig") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if os.name == "posix" and mode & stat.S_IROTH:
                problem = f"other users can read it; run chmod 600 {file}"
                raise FormatError(file, 0, problem)
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(file, 0, "cannot be read; name a file with tokens") from error
