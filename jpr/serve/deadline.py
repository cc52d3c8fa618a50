"""A time limit for searches.

A tree whose passages are found in every order grows with the factorial of k, and other requests
wait for the same thread.
"""

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from jpr.decode import Rows
from jpr.errors import DataError
from jpr.rerank.scorer import ModelInput, Opened, Scorer
from jpr.types import Prefix


class DeadlineScorer:
    """A scorer whose searches have a number of seconds each; belongs to one thread."""

    def __init__(self, scorer: Scorer, seconds: float) -> None:
        """Wrap a scorer."""
        self._scorer, self._seconds = scorer, seconds
        self.batch, self.ahead, self.numbers = scorer.batch, scorer.ahead, scorer.numbers
        self.stays_open, self.reads_answers = scorer.stays_open, scorer.reads_answers
        self.key = scorer.key
        self.tokens: tuple[int, ...] = ()
        """Tokens of each question opened last."""
        self.total_tokens = 0
        """Tokens of all questions opened so far."""
        self.start()

    def start(self) -> None:
        """Start the clock of the next search."""
        self._deadline = monotonic() + self._seconds

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Encode the candidates, which the deadline does not include: their number is limited."""
        opened = self._scorer.open(inputs)
        self.tokens = tuple(sum(len(one.ids) for one in each.prompted) for each in inputs)
        self.total_tokens += sum(self.tokens)
        self.start()

        def ask(prefixes: Sequence[tuple[int, Prefix]]) -> Rows:
            if monotonic() > self._deadline:
                raise DataError(
                    f"the search did not end within {self._seconds:g} seconds; use a smaller k, "
                    "or the decoder sets or seq"
                )
            return opened.ask(prefixes)

        return replace(opened, ask=ask)
