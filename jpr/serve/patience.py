"""A joint model that is not asked for ever.

A tree whose passages are found in every order grows with the factorial of k; a service that serves
others, too, has to give up.
"""

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from jpr.decode import Prefix, Rows
from jpr.errors import DataError
from jpr.rerank.scorer import Asked, Opened, Scorer


class PatientScorer:
    """A scorer whose searches have some seconds each; belongs to one thread."""

    def __init__(self, scorer: Scorer, seconds: float) -> None:
        """Ask another scorer."""
        self._scorer, self._seconds = scorer, seconds
        self.batch, self.ahead, self.numbers = scorer.batch, scorer.ahead, scorer.numbers
        self.stays_open, self.reads_answers = scorer.stays_open, scorer.reads_answers
        self.key = scorer.key
        self.tokens: tuple[int, ...] = ()
        """That were read for each of the questions opened last."""
        self.read = 0
        """Tokens read in all."""
        self.begin()

    def begin(self) -> None:
        """Give the search that comes its time."""
        self._until = monotonic() + self._seconds

    def open(self, asked: Sequence[Asked]) -> Opened:
        """Read the candidates, which may take as long as it takes: they are limited."""
        opened = self._scorer.open(asked)
        self.tokens = tuple(sum(len(one.ids) for one in each.prompted) for each in asked)
        self.read += sum(self.tokens)
        self.begin()

        def ask(wanted: Sequence[tuple[int, Prefix]]) -> Rows:
            if monotonic() > self._until:
                told = f"the search did not end within {self._seconds:g} seconds"
                raise DataError(f"{told}; take a smaller k, or the decoder sets or seq")
            return opened.ask(wanted)

        return replace(opened, ask=ask)
