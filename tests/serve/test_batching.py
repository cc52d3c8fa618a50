"""Jobs that come together are done together, and none is lost."""

import gc
import weakref
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


def order_of(clients: Sequence[str], max_batch: int = 1) -> list[int]:
    """The order of jobs that arrived while the thread was busy, by the clients that sent them."""
    work = Squares()
    thread = BatchThread(work, max_batch)
    thread.submit(100, "a")
    work.begun.wait()
    for at, client in enumerate(clients):
        thread.submit(at, client)
    work.may_go.set()
    thread.close()
    return [job for batch in work.batches[1:] for job in batch]


def test_nobody_waits_for_all_jobs_of_another_client() -> None:
    clients = ["a"] * 50 + ["b", "c", "b"]
    assert order_of(clients)[:7] == [50, 51, 0, 52, 1, 2, 3]
    assert order_of(clients, max_batch=3)[:6] == [50, 51, 0, 52, 1, 2]


@settings(max_examples=20)
@given(st.lists(st.sampled_from("abcd"), max_size=20))
def test_clients_take_turns(clients: list[str]) -> None:
    order = order_of(clients)
    for client in set(clients):
        own = [at for at in order if clients[at] == client]
        assert own == sorted(own)
        for other in set(clients) - {client}:  # they never differ by more than one while both wait
            while_both = [clients[at] for at in order[: order.index(own[-1]) + 1]]
            waited = min(clients.count(other), while_both.count(client) - 1)
            assert while_both.count(other) >= waited


class Job:
    """A job that can be referred to weakly."""


def test_a_cancelled_job_is_forgotten_at_once() -> None:
    """Clients that send bodies of megabytes and leave would fill the memory of a busy service."""
    begun, may_go = Event(), Event()

    def work(jobs: Sequence[Job], _: IsLeft) -> Iterator[tuple[int, None]]:
        begun.set()
        may_go.wait()
        yield from ((place, None) for place in range(len(jobs)))

    thread = BatchThread(work, max_batch=2)
    thread.submit(Job())
    begun.wait()
    job = Job()
    queued, known = thread.submit(job), weakref.ref(job)
    del job
    assert queued.cancel()
    assert thread.queued == 0
    assert known() is None
    may_go.set()
    thread.close()


@pytest.mark.parametrize("count", [1, 2])
def test_a_job_that_fails_is_forgotten_at_once(count: int) -> None:
    """The traceback of its error would keep it until Python looks for reference cycles."""

    def work(jobs: Sequence[Job], _: IsLeft) -> Iterator[tuple[int, None]]:
        raise ValueError(len(jobs))

    thread = BatchThread(work, max_batch=2)
    jobs = [Job() for _ in range(count)]
    known = [weakref.ref(job) for job in jobs]
    gc.disable()
    try:
        futures = [thread.submit(job) for job in jobs]
        jobs.clear()
        assert all(isinstance(future.exception(), ValueError) for future in futures)
        thread.close()
        futures.clear()
        assert [one() for one in known] == [None] * count
    finally:
        gc.enable()


def test_work_that_is_stuck_does_not_keep_the_process() -> None:
    work = Squares()
    thread = BatchThread(work, max_batch=1)
    thread.submit(1)
    work.begun.wait()
    thread.close(0.1)
    work.may_go.set()


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
