"""How passages are chosen, given a joint model: the search and its settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite

from jpr.decode import Limits, Search, beam, independent, sequence, tree
from jpr.errors import ConfigError

TREES = ("tree", "sets")
DECODERS = (*TREES, "seq", "beam", "independent")


@dataclass(frozen=True, slots=True)
class Decoding:
    """How passages are chosen, given the model."""

    decoder: str = "tree"
    beta: float = 2.0
    """tree, sets: the larger, the wider and less diverse."""
    width: int = 4
    """beam: sequences kept."""
    threshold: float = float("-inf")
    """Stop before an expansion that is worth less (`Choice.worths`): `k` is then the most."""
    budget: int | None = None
    """Tokens that the chosen passages may have together."""
    answers: bool = True
    """Whether to choose for the answers that passages add, where the model reads answers."""
    relevance: float = 0.0
    """Then, how much it counts besides that a passage is likely to tell one: from 0, where all that
    counts is what it contains. A reader of the chosen passages alone is better served by 0.5."""

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise ConfigError(f"decoder {self.decoder!r}; choose of {', '.join(DECODERS)}")
        if self.budget is not None and self.budget < 1:
            raise ConfigError(f"a budget of {self.budget} tokens; give at least one")
        if not 0 <= self.relevance < inf:
            raise ConfigError(f"relevance {self.relevance}; give a number from 0")

    @property
    def adds_answers(self) -> bool:
        """Whether passages are chosen for what they add; IndepPR takes each by itself."""
        return self.answers and self.decoder != "independent"

    def with_decoder(self, decoder: str | None, beta: float | None) -> "Decoding":
        """Return the same with another decoder or β; β alone asks for a tree."""
        own = self.decoder if beta is None or self.decoder in TREES else "tree"
        chosen = decoder or own
        if beta is not None and chosen not in TREES:
            raise ConfigError(
                f"β is for the decoders {' and '.join(TREES)}; leave it out for {chosen}"
            )
        if beta is not None and not isfinite(beta):
            raise ConfigError(f"β = {beta}; give a finite number")
        return replace(self, decoder=chosen, beta=self.beta if beta is None else beta)

    def search(self, n: int, limits: Limits, ahead: int = 1) -> Search:
        """Return the search for one question with n candidates."""
        searches: dict[str, Callable[[], Search]] = {
            "tree": lambda: tree(n, limits, self.beta, ahead),
            "sets": lambda: tree(n, limits, self.beta, ahead, orders=False),
            "seq": lambda: sequence(n, limits),
            "beam": lambda: beam(n, limits, self.width),
            "independent": lambda: independent(n, limits),
        }
        return searches[self.decoder]()
