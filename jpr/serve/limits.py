"""What one request may ask for, and how many may wait."""

from dataclasses import asdict, dataclass

from jpr.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of a service. The model truncates passages itself, so tokens need no limit."""

    body: int = 16 << 20
    """Bytes of a request body; more are not read."""
    passages: int = 1000
    """Passages in a request or in its response."""
    characters: int = 2_000_000
    """Characters of all texts of a request together."""
    waiting: int = 32
    """Requests running or queued; further ones are rejected with 429 and Retry-After."""
    seconds: float = 60.0
    """Time for a request, from its first byte to its response."""
    batch: int = 8
    """Requests that the model processes together."""
    corpora: int = 8
    """Uploaded corpora kept; a new one replaces the least recently used."""
    corpus_passages: int = 2000
    """Passages of an uploaded corpus."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ConfigError(f"limit {name} = {value}; it must be above 0")
