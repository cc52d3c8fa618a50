"""Work for a thread of its own: requests that come together, or meanwhile, are done together.

The thread takes the first job that waits and those that come within some milliseconds of it; while
it works, others gather. What fails by one job fails for that job alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Work = Callable[[Sequence[Job]], Iterable[tuple[int, Result]]]
"""Does some jobs, and yields each result with its job's place as soon as it is there."""

WAIT = 0.003
"""Seconds that a first job waits for others."""
_PACE = 0.2
"""How much the last batch counts for how long a job takes."""


@dataclass(frozen=True, slots=True)
class _Ticket(Generic[Job, Result]):
    """A job, and who waits for it."""

    job: Job
    future: "Future[Result]" = field(default_factory=Future)


class WorkThread(Generic[Job, Result]):
    """A thread that does jobs in batches until it is closed."""

    def __init__(self, work: Work[Job, Result], most: int, wait: float = WAIT) -> None:
        """Start it; at most so many jobs are a batch."""
        self._work, self._most, self._wait = work, most, wait
        self._queue: SimpleQueue[_Ticket[Job, Result] | None] = SimpleQueue()
        self._ends = False
        self.seconds_per_job = 0.0
        """How long a job has taken of late."""
        self._thread = Thread(target=self._run, name="jpr-work", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> "Future[Result]":
        """Put a job at the end; to cancel its future before its turn takes it out again."""
        ticket: _Ticket[Job, Result] = _Ticket(job)
        self._queue.put(ticket)
        return ticket.future

    def close(self) -> None:
        """Do what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._ends:
            batch = [ticket for ticket in self._gathered() if _begins(ticket)]
            if batch:
                begun = monotonic()
                self._do(batch)
                took = (monotonic() - begun) / len(batch)
                self.seconds_per_job += _PACE * (took - self.seconds_per_job)

    def _gathered(self) -> Iterator[_Ticket[Job, Result]]:
        """Wait for a job, then a little for others."""
        ticket = self._queue.get()
        until, count = monotonic() + self._wait, 0
        while ticket is not None:
            yield ticket
            count += 1
            left = until - monotonic()
            if count == self._most:
                return
            try:
                ticket = self._queue.get(left > 0, max(left, 0))
            except Empty:
                return
        self._ends = True

    def _do(self, batch: Sequence[_Ticket[Job, Result]]) -> None:
        left = dict(enumerate(batch))
        try:
            for place, result in self._work([ticket.job for ticket in batch]):
                left.pop(place).future.set_result(result)
        except BaseException as error:  # it belongs to who waits for the job, not to this thread
            if len(batch) == 1:
                left[0].future.set_exception(error)
                return
            for ticket in left.values():
                self._do([ticket])


def _begins(ticket: _Ticket[Job, Result]) -> bool:
    return ticket.future.set_running_or_notify_cancel()
