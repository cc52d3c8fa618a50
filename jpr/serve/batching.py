"""A thread that processes jobs in batches.

A batch is the first job in the queue and those that arrive within some milliseconds of it, or while
the batch before is running. A job that fails does not affect the others of its batch; a job whose
caller has left is dropped, also after its batch has begun.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
IsLeft = Callable[[int], bool]
"""Whether the caller of the job at a position has left; asking it shows that the work proceeds."""
Work = Callable[[Sequence[Job], IsLeft], Iterable[tuple[int, Result]]]
"""Processes some jobs, and yields each result with its job's position as soon as it is ready; need
not yield that of a job whose caller has left."""
_WAIT = 0.003  # seconds that the first job of a batch waits for others


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
        """Start the thread; it calls `count_dropped` with numbers of jobs whose callers left."""
        self._work, self._max_batch, self._count_dropped = work, max_batch, count_dropped
        self._queue: SimpleQueue[tuple[Job, Future[Result]] | None] = SimpleQueue()
        self._queued: dict[Future[Result], float] = {}  # when each was submitted
        self._lock = Lock()
        self._progress: float | None = None  # when the running batch last proceeded
        self.seconds_per_job = 0.0  # moving average
        self._thread = Thread(target=self._run, name="jpr-work", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> "Future[Result]":
        """Queue a job; cancelling its future drops it."""
        future: Future[Result] = Future()
        with self._lock:
            self._queued[future] = monotonic()
        self._queue.put((job, future))
        return future

    async def run(self, job: Job) -> Result:
        """Process a job, which is dropped if the caller is cancelled."""
        return await asyncio.wrap_future(self.submit(job))

    def close(self) -> None:
        """Process what is queued, and end."""
        self._queue.put(None)
        self._thread.join()

    @property
    def queued(self) -> int:
        """How many jobs wait for their batch."""
        return len(self._queued)

    @property
    def queue_seconds(self) -> float:
        """How long the oldest job whose caller waits has been queued."""
        with self._lock:
            starts = [start for future, start in self._queued.items() if not future.cancelled()]
        return monotonic() - min(starts) if starts else 0.0

    @property
    def stuck_seconds(self) -> float:
        """For how long a running batch has not proceeded; 0 between batches."""
        progress = self._progress
        return monotonic() - progress if progress is not None else 0.0

    def _run(self) -> None:
        while queued := self._next_batch():
            with self._lock:
                for _, future in queued:
                    del self._queued[future]
            batch = [one for one in queued if not one[1].cancelled()]
            if batch:
                start = self._progress = monotonic()
                self._process(batch)
                self._progress = None
                seconds = (monotonic() - start) / len(batch)
                self.seconds_per_job += 0.2 * (seconds - self.seconds_per_job)
            self._count_dropped(sum(future.cancelled() for _, future in queued))

    def _next_batch(self) -> "list[tuple[Job, Future[Result]]]":
        """Wait for a job, then a little for others; return none after `close`."""
        batch = []
        job = self._queue.get()
        deadline = monotonic() + _WAIT
        while job is not None:
            batch.append(job)
            if len(batch) == self._max_batch:
                return batch
            left = deadline - monotonic()
            try:
                job = self._queue.get(left > 0, max(left, 0))
            except Empty:
                return batch
        self._queue.put(None)  # for the next call
        return batch

    def _process(self, batch: "Sequence[tuple[Job, Future[Result]]]") -> None:
        def is_left(position: int) -> bool:
            self._progress = monotonic()
            return batch[position][1].cancelled()

        left = dict(enumerate(batch))
        try:
            for position, result in self._work([job for job, _ in batch], is_left):
                future = left.pop(position)[1]
                if future.set_running_or_notify_cancel():
                    future.set_result(result)
                self._progress = monotonic()
        except BaseException as error:  # belongs to the caller that waits, not to this thread
            for job, future in left.values():
                if len(batch) > 1 and not future.cancelled():
                    self._process([(job, future)])
                elif future.set_running_or_notify_cancel():
                    future.set_exception(error)
