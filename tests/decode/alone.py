"""One search by itself, over a model of one question."""

from collections.abc import Callable, Sequence

from jpr.decode.search import Rows, Search, decode_many
from jpr.types import Node, Prefix

NextLogProbs = Callable[[Sequence[Prefix]], Rows]


def decode(search: Search, next_log_probs: NextLogProbs) -> tuple[Node, ...]:
    """Run a search with a row for each prefix."""
    (found,) = decode_many([search], lambda pairs: next_log_probs([prefix for _, prefix in pairs]))
    return found
