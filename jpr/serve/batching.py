"""A thread that processes jobs in batches.

A batch is the first job in the queue and those that arrive within some milliseconds of it, or while
the batch before is running; clients take turns. A job that fails does not affect the others of its
batch; a job whose caller has left is dropped, also after its batch has begun.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

from jpr.serve.turns import TurnQueue

Job = TypeVar("Job")
Result = TypeVar("Result")
IsLeft = Callable[[int], bool]
"""Whether the caller of the job at a position has left; asking it shows that the work proceeds."""
Work = Callable[[Sequence[Job], IsLeft], Iterable[tuple[int, Result]]]
"""Processes some jobs, and yields each result with its job's position as soon as it is ready; need
not yield that of a job whose caller has left."""
_WAIT = 0.003  # seconds that the first job of a batch waits for others
_CLOSE = 2.0  # seconds that work has to end after the last of its callers


class CallerLeftError(Exception):
    """Work may raise it for a job that nobody waits for any more."""


class BatchThread(Generic[Job, Result]):
    """A thread that processes jobs in batches until it is closed."""

    def __init__(
        self,
        work: Work[Job, Result],
        max_batch: int,
        count_dropped: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Start the thread; `count_dropped` is called with numbers of jobs whose callers left."""
        self._work, self._max_batch, self._count_dropped = work, max_batch, count_dropped
        self._queue = TurnQueue[Future[Result], Job]()
        self._progress: float | None = None  # when the running batch last proceeded
        self.seconds_per_job = 0.0  # moving average
        self._thread = Thread(target=self._run, name="jpr-work", daemon=True)
        self._thread.start()

    def submit(self, job: Job, client: str = "") -> "Future[Result]":
        """Queue a job of a client; cancelling its future drops it."""
        future: Future[Result] = Future()

        def drop_if_cancelled(future: "Future[Result]") -> None:
            if future.cancelled():
                self._queue.remove(client, future)
                self._count_dropped(1)

        future.add_done_callback(drop_if_cancelled)
        self._queue.put(client, future, job)
        return future

    async def run(self, job: Job, client: str = "") -> Result:
        """Process a job, which is dropped if the caller is cancelled."""
        return await asyncio.wrap_future(self.submit(job, client))

    def close(self, seconds: float = _CLOSE) -> None:
        """Process what is queued, and end; work that is stuck is left behind after some seconds."""
        self._queue.close()
        self._thread.join(seconds)

    @property
    def queued(self) -> int:
        """How many jobs wait for their batch."""
        return len(self._queue.times())

    @property
    def queue_seconds(self) -> float:
        """How long the oldest job has been queued."""
        times = self._queue.times()
        return monotonic() - min(times) if times else 0.0

    @property
    def stuck_seconds(self) -> float:
        """For how long a running batch has not proceeded; 0 between batches."""
        progress = self._progress
        return monotonic() - progress if progress is not None else 0.0

    def _run(self) -> None:
        for queued in self._queue.batches(self._max_batch, _WAIT):
            start = self._progress = monotonic()
            batch = [one for one in queued if not one[1].cancelled()]
            queued.clear()
            if count := len(batch):
                alone = self._process(batch)
                while alone:
                    self._process([alone.pop(0)])
                seconds = (monotonic() - start) / count
                self.seconds_per_job += 0.2 * (seconds - self.seconds_per_job)
            self._progress = None

    def _process(
        self, batch: "list[tuple[Job, Future[Result]]]"
    ) -> "list[tuple[Job, Future[Result]]]":
        """Process a batch; return jobs to be processed alone, because one of them failed.

        No variable may keep jobs or futures: the traceback of an error keeps all variables.
        """

        def is_left(position: int) -> bool:
            self._progress = monotonic()
            return batch[position][1].cancelled()

        left, alone = dict(enumerate(batch)), []
        try:
            for position, result in self._work([job for job, _ in batch], is_left):
                if left[position][1].set_running_or_notify_cancel():
                    left[position][1].set_result(result)
                del left[position]
                self._progress = monotonic()
        except BaseException as error:  # belongs to the caller that waits, not to this thread
            if len(batch) > 1:
                alone = [one for one in left.values() if not one[1].cancelled()]
            elif left and batch[0][1].set_running_or_notify_cancel():
                batch[0][1].set_exception(error)
        batch.clear()
        left.clear()
        return alone
