"""How passages are chosen, given a joint model: the search, its settings, and when it stops.

With `k="auto"`, a search stops before the first expansion whose worth (`Node.worth`) is below a
threshold. `calibrate` finds the highest threshold, the one with the fewest passages, that keeps a
given share of the answers found without it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jpr.decode.conditioning import COVERAGE, UNCONDITIONED, Conditioning
from jpr.decode.search import Limits, Search
from jpr.decode.sequences import beam, independent, sequence
from jpr.decode.tree import tree
from jpr.errors import ConfigError, DataError
from jpr.io.checksums import sealed, unsealed
from jpr.io.json_files import read_object, write_json
from jpr.types import CONDITIONINGS, DECODERS, INDEPENDENT, TREES, Node

if TYPE_CHECKING:
    from jpr.coverage import Coverage


@dataclass(frozen=True, slots=True)
class Decoding:
    """How passages are chosen, given the model."""

    decoder: str = "tree"
    beta: float = 2.0
    """tree, sets: the length penalty; larger is wider and less diverse."""
    width: int = 4
    """beam: sequences kept."""
    threshold: float = float("-inf")
    """Stop before an expansion that is worth less; `k` is then the maximum."""
    budget: int | None = None
    """Tokens that the chosen passages may have together."""
    conditioning: str = "learned"
    """One of `CONDITIONINGS`; only the model's decoder if the model does not read answers."""
    relevance: float = 0.0
    """λ, added to the weight of a passage's own probability beside the answers it adds."""
    trust: float = 1.0
    """How much the model counts against the first stage; 0 keeps the first stage's order."""

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise ConfigError(f"decoder {self.decoder!r}; choose one of {', '.join(DECODERS)}")
        if self.budget is not None and self.budget < 1:
            raise ConfigError(f"a budget of {self.budget} tokens; give at least one")
        if not 0 <= self.relevance < inf:
            raise ConfigError(f"λ = {self.relevance}; give a number of 0 or more")
        if not 0 <= self.trust <= 1:
            raise ConfigError(f"trust = {self.trust}; give a number from 0 to 1")
        if self.conditioning not in CONDITIONINGS:
            choices = ", ".join(CONDITIONINGS)
            raise ConfigError(f"conditioning {self.conditioning!r}; choose one of {choices}")

    @property
    def is_conditioned(self) -> bool:
        """Whether P(next | prefix) is more than the decoder's, if the model reads answers."""
        is_plain = self.conditioning == CONDITIONINGS[-1] and self.trust == 1
        return self.decoder != INDEPENDENT and not is_plain

    def weights(self, learned: Conditioning) -> Conditioning:
        """Return the weights of P(next | prefix), given those that the model learned."""
        every = dict(zip(CONDITIONINGS, (learned, COVERAGE, UNCONDITIONED), strict=True))
        return every[self.conditioning].adjusted(self.trust, self.relevance)

    @property
    def effective_beta(self) -> float | None:
        """β, or None if the decoder has none."""
        return self.beta if self.decoder in TREES else None

    def with_decoder(self, decoder: str | None, beta: float | None) -> "Decoding":
        """Return the same with another decoder or β; β alone selects a tree."""
        if beta is None:
            return replace(self, decoder=decoder or self.decoder)
        chosen = decoder or (self.decoder if self.decoder in TREES else "tree")
        if chosen not in TREES:
            raise ConfigError(f"β = {beta} is for {' and '.join(TREES)}, not for {chosen}")
        if not isfinite(beta):
            raise ConfigError(f"β = {beta}; give a finite number")
        return replace(self, decoder=chosen, beta=beta)

    def search(self, n: int, limits: Limits, ahead: int = 1) -> Search:
        """Return the search for one question with n candidates."""
        if self.decoder in TREES:
            return tree(n, limits, self.beta, ahead, ordered=self.decoder == "tree")
        if self.decoder == "beam":
            return beam(n, limits, self.width)
        return sequence(n, limits) if self.decoder == "seq" else independent(n, limits)


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When a model's searches stop, and on what data that was found."""

    threshold: float
    most: int  # maximum number of passages
    decoder: str
    beta: float  # the search that it was found for
    kept: float  # the share of answers that it kept
    passages: float  # passages per question, on average
    questions: int

    def __post_init__(self) -> None:
        if not (isfinite(self.threshold) and isfinite(self.beta)):
            raise ConfigError(f"threshold {self.threshold}, beta {self.beta}; both must be finite")

    def check(self, decoding: Decoding) -> None:
        """Reject a way to choose for which the threshold was not found."""
        has_beta = self.decoder in TREES
        if self.decoder != decoding.decoder or (has_beta and self.beta != decoding.beta):
            named = f"decoder={self.decoder}" + (f", beta={self.beta}" if has_beta else "")
            raise ConfigError(f'k = "auto" was calibrated for {named}; use it or calibrate again')
        calibrated = Decoding(decoding.decoder)
        for name in ("conditioning", "relevance", "trust"):
            value, expected = getattr(decoding, name), getattr(calibrated, name)
            if value != expected:
                problem = f'k = "auto" was calibrated for {name} = {expected}, not {value}'
                raise ConfigError(f"{problem}; give a number")


def calibrate(
    trees: Sequence[Sequence[Node]], coverage: "Coverage", keep: float
) -> tuple[float, float, float]:
    """Return the threshold, the share of answers it keeps, and the passages per question.

    The trees were grown without a threshold, from the candidates of `coverage`.
    """
    if not 0 < keep <= 1:
        raise ConfigError(f"keep = {keep}; give a share above 0 and up to 1")
    rows: list[tuple[float, int, bool]] = []
    for question, nodes in enumerate(trees):
        covers, seen, low = coverage.covers(question), set[int](), inf
        for node in nodes:
            low = min(low, node.worth)
            rows.append((low, len(covers[node.passage] - seen), node.is_new))
            seen |= covers[node.passage]
    lows, gains, news = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    if not gains.any():
        raise DataError("no chosen passage contains an answer; a threshold cannot be found")
    order = np.argsort(-lows, kind="stable")
    found = np.cumsum(gains[order])
    last = np.searchsorted(found, keep * found[-1] - 1e-9)
    threshold = float(lows[order][last])
    stays = lows >= threshold
    kept = float(gains[stays].sum() / found[-1])
    return threshold, kept, float(news[stays].sum() / len(trees))


def write_stopping_rule(file: Path, rule: StoppingRule) -> None:
    """Write a stopping rule into a model's `joint.json`."""
    write_json(file, sealed({**unsealed(file, read_object(file)), "stop": asdict(rule)}))
