"""Clients take turns, and nothing is done for those that left."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event
from time import monotonic

import httpx
import numpy as np
import pytest

from jpr.encode.encoder import Vectors
from jpr.pipeline import Pipeline
from jpr.rerank.joint import JointReranker
from jpr.rerank.scorer import ModelInput, Opened, Scorer
from jpr.serve.batching import CallerLeftError
from jpr.serve.limits import ServiceLimits
from jpr.serve.service import Service
from jpr.serve.tokens import Tokens
from jpr.types import Passage
from tests.rerank.words import tokenizer
from tests.serve.running import QUESTION, make_service, running
from tests.serve.test_hostile import metric
from tests.serve.test_middleware import held_up, wait_for, waiting


class SlowScorer:
    """A scorer that takes some time for each passage, and counts them."""

    def __init__(self, scorer: Scorer, seconds: float) -> None:
        self._scorer, self._seconds = scorer, seconds
        self.batch, self.ahead, self.index_tokens = scorer.batch, scorer.ahead, scorer.index_tokens
        self.stays_open, self.reads_answers = scorer.stays_open, scorer.reads_answers
        self.key, self.read = scorer.key, 0

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Read the candidates."""
        for one in inputs:
            for _ in one:
                self.read += 1
                Event().wait(self._seconds)
        return self._scorer.open(inputs)


def slowed(pipeline: Pipeline, seconds: float) -> tuple[Pipeline, SlowScorer]:
    assert isinstance(pipeline.reranker, JointReranker)
    slow = SlowScorer(pipeline.reranker.scorer, seconds)
    return replace(pipeline, reranker=pipeline.reranker.with_scorer(slow)), slow


ADA, BOB = "ada-0123456789abcdef", "bob-0123456789abcdef"
STAFF = Tokens.of_text(f"ada {ADA}\nbob {BOB}\n", "here")


def ask(url: str, question: str, source: str = "127.0.0.1", token: str = "") -> int:
    """Ask from one of this machine's addresses; return the status."""
    transport = httpx.HTTPTransport(local_address=source)
    head = {"authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(transport=transport, timeout=60, headers=head) as client:
        return client.post(f"{url}/v1/ask", json={"question": question}).status_code


@pytest.mark.parametrize(
    ("tokens", "first", "second"),
    [
        (None, ("127.0.0.2",), ("127.0.0.3",)),
        (STAFF, ("127.0.0.2", ADA), ("127.0.0.2", BOB)),
    ],
)
def test_another_client_does_not_wait_for_all_requests_of_the_first(
    pipeline: Pipeline, tokens: Tokens | None, first: Sequence[str], second: Sequence[str]
) -> None:
    with (
        held_up(pipeline, ServiceLimits(), tokens) as (url, held),
        ThreadPoolExecutor(33) as threads,
    ):
        sent = [threads.submit(ask, url, f"red {at}", *first) for at in range(32)]
        wait_for(lambda: waiting(url, ADA) == 32)
        sent.append(threads.submit(ask, url, "blue", *second))
        wait_for(lambda: waiting(url, ADA) == 33)
        held.may_go.set()
        assert {one.result() for one in sent} == {200}
    assert len(held.asked) == 33
    assert held.asked.index("blue") == 1  # only the one in progress


def test_a_new_client_is_accepted_where_others_fill_the_queue(pipeline: Pipeline) -> None:
    limits = ServiceLimits(waiting=2)
    with held_up(pipeline, limits) as (url, held), ThreadPoolExecutor(4) as threads:
        sent = [threads.submit(ask, url, f"red {at}", "127.0.0.2") for at in range(2)]
        wait_for(lambda: waiting(url) == 2)
        assert ask(url, "red 2", "127.0.0.2") == 429
        sent += [threads.submit(ask, url, f"red {at}", f"127.0.0.{at}") for at in (3, 4)]
        wait_for(lambda: waiting(url) == 4)
        assert ask(url, "red 5", "127.0.0.5") == 429  # there is a limit for all together, too
        held.may_go.set()
        assert [one.result() for one in sent] == [200] * 4


def test_bodies_are_read_in_turns(pipeline: Pipeline) -> None:
    """Bodies of megabytes take seconds, and each client can send many."""
    service, order, may_go = make_service(pipeline), list[str](), Event()

    async def read_all() -> None:
        first = asyncio.create_task(service.in_thread(may_go.wait, "a"))
        await asyncio.sleep(0.1)
        others = (service.in_thread(partial(order.append, one), one) for one in "aaaaaaaab")
        asyncio.get_running_loop().call_later(0.2, may_go.set)
        await asyncio.gather(first, *others)

    asyncio.run(read_all())
    assert order[0] == "b"
    service.close()


def test_no_further_passage_is_read_for_a_client_that_left(pipeline: Pipeline) -> None:
    slow, scorer = slowed(pipeline, 0.05)
    body = {"query": QUESTION, "documents": ["red"] * 1000}
    with running(slow) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/v2/rerank", json=body, timeout=0.5)
        read = scorer.read
        assert 0 < read < 100
        wait_for(lambda: metric(url, "jpr_abandoned_total") == 1)
        begun = monotonic()
        one = {"query": QUESTION, "documents": ["red"]}
        assert httpx.post(f"{url}/v2/rerank", json=one).status_code == 200
        assert monotonic() - begun < 1
        assert scorer.read - read <= 4  # the one in progress, perhaps the next, and that of `one`


class SlowEncoder:
    """An encoder that takes some time for each passage, and counts them."""

    key, dimension = "slow", 2

    def __init__(self) -> None:
        self.encoded = 0

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 2), np.float32)

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        self.encoded += len(passages)
        Event().wait(0.01 * len(passages))
        return np.ones((len(passages), 2), np.float32)


def leaving(seconds: float) -> Callable[[], bool]:
    """Return a caller that leaves after some seconds."""
    end = monotonic() + seconds
    return lambda: monotonic() > end


def with_encoder(pipeline: Pipeline, encoder: SlowEncoder) -> Service:
    return Service(pipeline, ServiceLimits(), tokenizer(), lambda: encoder)


def test_no_further_passages_are_encoded_for_an_upload_of_a_client_that_left(
    pipeline: Pipeline,
) -> None:
    encoder = SlowEncoder()
    service = with_encoder(pipeline, encoder)
    rows = "colour\n" + "red\n" * 1000
    begun = monotonic()
    with pytest.raises(CallerLeftError):
        service.corpora.add([("a.csv", rows.encode())], leaving(0.5))
    assert monotonic() - begun < 3
    assert encoder.encoded < 300
    corpus = service.corpora.add([("a.csv", b"colour\nred\nblue\n")])
    assert corpus.passages == 2
    service.close()


def test_a_file_is_not_read_to_its_end_for_a_client_that_left(pipeline: Pipeline) -> None:
    service = make_service(pipeline)
    header, rows = " ".join(f"bees{at}" for at in range(13_000)), "1\n" * 1900  # takes many seconds
    begun = monotonic()
    with pytest.raises(CallerLeftError):
        service.corpora.add([("a.csv", f"{header}\n{rows}".encode())], leaving(0.5))
    assert monotonic() - begun < 3
    service.close()
