"""The errors a user can cause, each one sentence: what is wrong, where, what to do.

JprError
├── FormatError         a file cannot be read as its format; names the file and the line
├── DataError           the inputs are well formed but do not match
├── ConfigError         an option or argument is not valid
└── MissingExtraError   the feature needs an optional package; names the command that installs it
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 2000


class JprError(Exception):
    """The base of all errors that a user can cause; any other exception is a bug of jpr."""

    def __init__(self, message: str) -> None:
        """Put the message on one line of limited length: it may quote a whole file."""
        line = " ".join(message.split()) if "\n" in message or "\r" in message else message
        super().__init__(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")


class FormatError(JprError):
    """A file cannot be read as its format.

    >>> str(FormatError("run.trec", 7, "5 columns instead of 6"))
    'run.trec:7: 5 columns instead of 6'
    """

    def __init__(self, path: str | Path, line: int, problem: str) -> None:
        """Report a problem of a file, or of one of its lines if `line` is not 0."""
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path = Path(path)
        self.line = line
        self.problem = problem


class DataError(JprError):
    """Inputs do not match: ids are missing, repeated or from different sets."""


class ConfigError(JprError):
    """An option or argument is not valid."""


class MissingExtraError(JprError):
    """A feature needs a package that the light installation does not include."""

    def __init__(self, feature: str, extra: str) -> None:
        """Name the feature and the extra that installs it."""
        super().__init__(f"{feature} needs an extra: pip install 'jpr[{extra}]'")


@contextmanager
def needs_extra(feature: str, extra: str) -> Iterator[None]:
    """Raise MissingExtraError where an import of a feature fails."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
