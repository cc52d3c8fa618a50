"""The errors a user can cause, each one sentence: what, where, what to do.

JprError
├── FormatError         a file is not what it should be; names the file and the line
├── DataError           the inputs are well formed but do not fit together
├── ConfigError         an option or argument has no meaning
└── MissingExtraError   the feature needs an optional package; names the command that installs it
"""

from pathlib import Path

_LONGEST = 2000


class JprError(Exception):
    """Catch this to handle every mistake that `jpr` explains; anything else is a bug of ours."""

    def __init__(self, told: str) -> None:
        """Say it in one line, whatever it quotes: a key of a file may be all of the file."""
        line = " ".join(told.split()) if "\n" in told or "\r" in told else told
        super().__init__(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")


class FormatError(JprError):
    """A file cannot be read as what it should be.

    >>> str(FormatError("run.trec", 7, "5 columns instead of 6"))
    'run.trec:7: 5 columns instead of 6'
    """

    def __init__(self, path: str | Path, line: int, problem: str) -> None:
        """Say `problem` about a file, or about one line of it where `line` is not 0."""
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path = Path(path)
        self.line = line
        self.problem = problem


class DataError(JprError):
    """Inputs do not fit together: ids that are missing, repeated or of different sets."""


class ConfigError(JprError):
    """An option or argument has no meaning."""


class MissingExtraError(JprError):
    """A feature needs a package that the light installation leaves out."""

    def __init__(self, feature: str, extra: str) -> None:
        """Name what was asked for and the extra that brings it."""
        super().__init__(f"{feature} needs an extra: pip install 'jpr[{extra}]'")
