"""A thread that processes jobs in batches.

A batch is the first job in the queue and those that arrive within some milliseconds of it, or while
the batch before is running. A job that fails does not affect the others of its batch.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Work = Callable[[Sequence[Job]], Iterable[tuple[int, Result]]]
"""Processes some jobs, and yields each result with its job's position as soon as it is ready."""
_WAIT = 0.003  # seconds that the first job of a batch waits for others


class BatchThread(Generic[Job, Result]):
    """A thread that processes jobs in batches until it is closed."""

    def __init__(self, work: Work[Job, Result], max_batch: int) -> None:
        """Start the thread."""
        self._work, self._max_batch = work, max_batch
        self._queue: SimpleQueue[tuple[Job, Future[Result]] | None] = SimpleQueue()
        self.seconds_per_job = 0.0  # moving average
        self._thread = Thread(target=self._run, name="jpr-work", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> "Future[Result]":
        """Queue a job; cancelling its future before its turn removes it."""
        future: Future[Result] = Future()
        self._queue.put((job, future))
        return future

    async def run(self, job: Job) -> Result:
        """Process a job; a caller that is cancelled before its turn removes it."""
        return await asyncio.wrap_future(self.submit(job))

    def close(self) -> None:
        """Process what is queued, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while queued := self._next_batch():
            batch = [one for one in queued if one[1].set_running_or_notify_cancel()]
            if batch:
                start = monotonic()
                self._process(batch)
                seconds = (monotonic() - start) / len(batch)
                self.seconds_per_job += 0.2 * (seconds - self.seconds_per_job)

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
        left = dict(enumerate(batch))
        try:
            for position, result in self._work([job for job, _ in batch]):
                left.pop(position)[1].set_result(result)
        except BaseException as error:  # belongs to the caller that waits, not to this thread
            for job, future in left.values():
                if len(batch) == 1:
                    future.set_exception(error)
                else:
                    self._process([(job, future)])
