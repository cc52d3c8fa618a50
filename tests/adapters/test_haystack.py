import asyncio
import subprocess
import sys

import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import SerializationError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.telemetry import _telemetry

from jpr.adapters.haystack import JprRanker
from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from tests.adapters.sample import METAS, QUERY, TEXTS, ThreadNoted, expected
from tests.rerank.tiny import NAMES


def documents() -> list[Document]:
    return [
        Document(id=f"id-{meta['title']}", content=text, meta=dict(meta), score=1.0 / (place + 1))
        for place, (text, meta) in enumerate(zip(TEXTS, METAS, strict=True))
    ]


def test_nothing_is_sent_to_anybody() -> None:
    assert _telemetry.telemetry is None


def test_documents_are_those_that_the_reranker_chooses(joint: JointReranker) -> None:
    given = documents()
    kept = JprRanker(joint, top_k=3).run(QUERY, given)["documents"]
    assert [(d.meta["title"], d.score) for d in kept] == expected(joint, 3)
    for document in kept:
        place = NAMES.index(document.meta["title"])
        assert (document.id, document.content) == (given[place].id, TEXTS[place])
        assert document.meta == METAS[place]
    assert given == documents()


def test_the_first_stages_scores_reach_the_reranker() -> None:
    kept = JprRanker(FirstStageOrder(), top_k=2).run(QUERY, documents())["documents"]
    assert [document.score for document in kept] == [1.0, 0.5]


def test_a_querys_own_top_k_holds(joint: JointReranker) -> None:
    ranker = JprRanker(joint, top_k=3)
    assert len(ranker.run(QUERY, documents(), top_k=2)["documents"]) == 2
    assert len(ranker.run(QUERY, documents(), top_k=99)["documents"]) == len(NAMES)
    assert ranker.run(QUERY, [])["documents"] == []


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_without_meaning_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=f"k = {k};"):
        JprRanker(top_k=k)
    with pytest.raises(ConfigError, match=f"k = {k};"):
        JprRanker(FirstStageOrder()).run(QUERY, documents(), top_k=k)


def test_a_document_without_text_is_refused() -> None:
    with pytest.raises(DataError, match="document 2 has no text"):
        JprRanker(FirstStageOrder()).run(QUERY, [documents()[0], Document(meta={"a": 1})])


def pipeline(ranker: JprRanker) -> Pipeline:
    """BM25, then the ranker."""
    store = InMemoryDocumentStore()
    store.write_documents(documents())
    made = Pipeline()
    made.add_component("bm25", InMemoryBM25Retriever(store, top_k=10))
    made.add_component("jpr", ranker)
    made.connect("bm25.documents", "jpr.documents")
    return made


def test_it_stands_in_a_pipeline(joint: JointReranker) -> None:
    asked = {"bm25": {"query": "which"}, "jpr": {"query": QUERY, "top_k": 3}}
    kept = pipeline(JprRanker(joint)).run(asked)["jpr"]["documents"]
    assert {d.meta["title"] for d in kept} == {title for title, _ in expected(joint, 3)}


def test_a_pipeline_that_is_awaited_asks_in_a_thread() -> None:
    async def ask(reranker: ThreadNoted) -> bool:
        asked = {"bm25": {"query": "which"}, "jpr": {"query": QUERY, "top_k": 2}}
        found = await pipeline(JprRanker(reranker)).run_async(asked)
        assert len(found["jpr"]["documents"]) == 2
        return reranker.left_the_callers

    assert asyncio.run(ask(ThreadNoted()))


def test_a_pipeline_is_written_down_and_read_again() -> None:
    text = pipeline(JprRanker(top_k=3)).dumps()
    again = Pipeline.loads(text, allowed_modules=["jpr.adapters.haystack"])
    ranker = again.get_component("jpr")
    assert isinstance(ranker, JprRanker)
    assert (ranker.top_k, ranker.reranker) == (3, None)
    with pytest.raises(SerializationError, match="FirstStageOrder"):  # not silently another
        pipeline(JprRanker(FirstStageOrder())).dumps()


def test_making_it_opens_no_model() -> None:
    code = "import sys; from jpr.adapters.haystack import JprRanker; JprRanker()"
    code += "; from jpr.adapters.choose import _bundled; sys.exit(_bundled.cache_info().currsize)"
    subprocess.run([sys.executable, "-c", code], check=True)
