"""Jobs of many, done by one model."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from jpr.decode.search import Rows
from jpr.errors import ConfigError, DataError
from jpr.pipeline import Pipeline
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from jpr.rerank.scorer import ModelInput, Opened
from jpr.serve.engine import (
    CACHED_QUESTIONS,
    AskJob,
    DeadlineScorer,
    DecodeOptions,
    RerankJob,
    RerankResult,
    ServiceEngine,
)
from jpr.types import Hit, Passage, Prefix, Question, Ranking
from tests.rerank.tiny import NAMES
from tests.serve.running import QUESTION, make_pipeline, open_pipeline


def candidates(names: list[str]) -> Ranking:
    hits = [Hit(Passage(str(at), "", f"{name} which"), 0.0) for at, name in enumerate(names)]
    return Ranking(Question("1", QUESTION), tuple(hits))


def jobs(engine: ServiceEngine) -> list[AskJob | RerankJob]:
    asks = [
        AskJob(engine.pipeline, "", question, ways)
        for question in (QUESTION, "red ?")
        for ways in (
            (DecodeOptions(), DecodeOptions(None, "independent")),
            (DecodeOptions(2, "sets", 0.0),),
            (DecodeOptions(4),),
        )
    ]
    reranks = [
        RerankJob(candidates(NAMES[first:]), options)
        for first in range(4)
        for options in (DecodeOptions(3), DecodeOptions(None, "seq"))
    ]
    return [*asks, *reranks]


def results(
    engine: ServiceEngine, given: list[AskJob | RerankJob]
) -> list[dict[str, object] | RerankResult]:
    found = dict(engine.work(given))
    assert sorted(found) == list(range(len(given)))
    return [found[place] for place in range(len(given))]


@pytest.mark.parametrize("onnx", [True, False])
def test_a_batch_gives_what_single_jobs_give(tmp_path: Path, served: Path, onnx: bool) -> None:
    pipeline = open_pipeline(served) if onnx else make_pipeline(tmp_path, onnx=False)
    together, alone = ServiceEngine(pipeline), ServiceEngine(pipeline)
    for job, other, found in zip(
        jobs(together), jobs(alone), results(together, jobs(together)), strict=True
    ):
        (single,) = results(alone, [other])
        if isinstance(found, RerankResult) and isinstance(single, RerankResult):
            assert [at for at, _ in found.order] == [at for at, _ in single.order]
            scores = [score for _, score in found.order]
            assert scores == pytest.approx([score for _, score in single.order], rel=1e-4)
            assert all(high > low for high, low in pairwise(scores))
            assert found.tokens == single.tokens
        else:
            assert rounded(found) == rounded(single)
        assert isinstance(found, RerankResult) == isinstance(job, RerankJob)


def rounded(value: object) -> object:
    """JSON with numbers of three places: batches of torch differ in the last bits."""
    return json.loads(json.dumps(value), parse_float=lambda text: round(float(text), 3))


def test_all_candidates_come_once_where_no_number_is_given(pipeline: Pipeline) -> None:
    engine = ServiceEngine(pipeline)
    many = candidates([NAMES[at % 10] for at in range(30)])
    (found,) = results(engine, [RerankJob(many, DecodeOptions(None, "seq"))])
    assert isinstance(found, RerankResult)
    assert sorted(at for at, _ in found.order) == list(range(30))


def test_only_the_last_questions_are_cached(pipeline: Pipeline) -> None:
    counts = Counter[str]()
    engine = ServiceEngine(pipeline, lambda name, n: counts.update({name: n}))
    for at in [*range(CACHED_QUESTIONS + 1), 1, 0]:  # 0 had to go, 1 had not
        results(engine, [AskJob(engine.pipeline, "", f"red {at}", (DecodeOptions(),))])
    assert counts["reused"] == 1
    assert counts["jobs"] == counts["batches"] == CACHED_QUESTIONS + 3


class Reluctant:
    """A model that is sure of nine passages in any order, and of the tenth never."""

    batch, ahead, index_tokens, stays_open, reads_answers, key = 1, 1, 0, True, False, "reluctant"

    def open(self, asked: Sequence[ModelInput]) -> Opened:
        def ask(prefixes: Sequence[tuple[int, Prefix]]) -> Rows:
            return [np.array([-1.0] * 9 + [-50.0]) for _ in prefixes]

        return Opened(ask)


def test_a_search_without_end_is_given_up(pipeline: Pipeline) -> None:
    """It would have to grow all 986,410 prefixes of nine passages."""
    assert isinstance(pipeline.reranker, JointReranker)
    joint = pipeline.reranker.with_scorer(DeadlineScorer(Reluctant(), 0.2))
    with pytest.raises(DataError, match=r"0\.2 seconds.*smaller k"):
        joint.rank(Question("1", QUESTION), candidates(NAMES).hits, 10)
    assert len(joint.rank(Question("1", QUESTION), candidates(NAMES).hits, 9).hits) == 9


def test_only_a_joint_model_is_served(pipeline: Pipeline) -> None:
    with pytest.raises(ConfigError, match="only a joint model"):
        ServiceEngine(replace(pipeline, reranker=FirstStageOrder()))
