"""Jobs that come together are done together, and none is lost."""

from collections.abc import Iterator, Sequence
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.serve.batching import BatchThread, IsLeft


class Squares:
    """Work that can be held up, and remembers its batches."""

    def __init__(self) -> None:
        self.may_go, self.begun = Event(), Event()
        self.batches: list[list[int]] = []

    def __call__(self, jobs: Sequence[int], _: IsLeft) -> Iterator[tuple[int, int]]:
        self.batches.append(list(jobs))
        self.begun.set()
        self.may_go.wait()
        for place in reversed(range(len(jobs))):  # results may come in any order
            if jobs[place] < 0:
                raise ValueError(jobs[place])
            yield place, jobs[place] ** 2


def test_what_comes_while_the_thread_is_busy_is_done_together() -> None:
    work = Squares()
    thread = BatchThread(work, max_batch=3)
    first = thread.submit(1)
    work.begun.wait()
    others = [thread.submit(n) for n in (2, 3, 4, 5)]
    work.may_go.set()
    assert [first.result(), *(other.result() for other in others)] == [1, 4, 9, 16, 25]
    assert work.batches == [[1], [2, 3, 4], [5]]
    thread.close()


@settings(max_examples=20)
@given(st.lists(st.integers(-3, 9), max_size=12), st.integers(1, 5))
def test_every_job_gets_its_own_result_or_error(jobs: list[int], max_batch: int) -> None:
    work = Squares()
    work.may_go.set()
    thread = BatchThread(work, max_batch)
    futures = [thread.submit(job) for job in jobs]
    thread.close()  # what waits is finished first
    for job, future in zip(jobs, futures, strict=True):
        if job < 0:
            with pytest.raises(ValueError, match=str(job)):
                future.result(0)
        else:
            assert future.result(0) == job**2
    assert all(len(batch) <= max_batch for batch in work.batches)


def test_a_cancelled_job_is_not_started() -> None:
    work = Squares()
    thread = BatchThread(work, max_batch=1)
    thread.submit(1)
    work.begun.wait()
    cancelled, kept = thread.submit(2), thread.submit(3)
    assert cancelled.cancel()
    work.may_go.set()
    assert kept.result() == 9
    assert work.batches == [[1], [3]]
    thread.close()


def test_the_average_time_of_a_job_is_known() -> None:
    work = Squares()
    work.may_go.set()
    thread = BatchThread(work, max_batch=4)
    assert thread.seconds_per_job == 0
    thread.submit(1).result()
    thread.close()
    assert 0 < thread.seconds_per_job < 5
