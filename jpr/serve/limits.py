"""What one request may ask for, and how many may wait."""

from dataclasses import dataclass, fields

from jpr.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a service. A passage is read up to the model's own number of tokens, no further."""

    body: int = 16 << 20
    """Bytes of a request; more are not read."""
    passages: int = 1000
    """Passages in a request, or in an answer to it."""
    characters: int = 2_000_000
    """Characters of all texts of a request together."""
    waiting: int = 32
    """Requests at work or waiting for it; more are sent away, to come again."""
    seconds: float = 60.0
    """For a request, from its first byte to its answer."""
    batch: int = 8
    """Requests that the model takes up together."""
    corpora: int = 8
    """Corpora made of files that were sent; the one not asked for longest makes room."""
    corpus_passages: int = 2000
    """Passages of such a corpus."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(f"max {field.name} is {value}; give a number above 0")
