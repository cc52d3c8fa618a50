import asyncio
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from jpr.adapters.langchain import SCORE, JprCompressor, JprRetriever
from jpr.errors import ConfigError
from jpr.pipeline import Pipeline
from jpr.read.spans import SpanReader
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from jpr.retrieve.custom import FunctionRetriever
from jpr.types import Hit, Passage
from tests.adapters.sample import METAS, QUERY, TEXTS, ThreadNoted, expected
from tests.rerank.tiny import NAMES, ranking, write_pointer


def documents() -> list[Document]:
    return [
        Document(id=f"id-{meta['title']}", page_content=text, metadata=dict(meta))
        for text, meta in zip(TEXTS, METAS, strict=True)
    ]


def retriever() -> FunctionRetriever:
    return FunctionRetriever(lambda text, k: ranking().hits)


def test_a_compressor_keeps_what_the_reranker_chooses(joint: JointReranker) -> None:
    given = documents()
    kept = JprCompressor(reranker=joint, top_n=3).compress_documents(given, QUERY)
    assert [(d.metadata["title"], d.metadata[SCORE]) for d in kept] == expected(joint, 3)
    for document in kept:
        place = NAMES.index(document.metadata["title"])
        assert document.id == given[place].id
        assert document.page_content == TEXTS[place]
        assert document.metadata == METAS[place] | {SCORE: document.metadata[SCORE]}
    assert given == documents()  # the given ones are left as they are


def test_more_than_there_are_is_all(joint: JointReranker) -> None:
    kept = JprCompressor(reranker=joint, top_n=99).compress_documents(documents(), QUERY)
    assert sorted(d.metadata["page"] for d in kept) == list(range(len(NAMES)))
    assert JprCompressor(reranker=joint).compress_documents([], QUERY) == []


def test_a_document_twice_is_two(joint: JointReranker) -> None:
    twice = documents()[:1] * 2
    assert len(JprCompressor(reranker=joint).compress_documents(twice, QUERY)) == 2


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_without_meaning_is_refused_at_once(k: int) -> None:
    for make in (
        lambda: JprCompressor(top_n=k),
        lambda: JprRetriever(retriever=retriever(), top_n=k),
    ):
        with pytest.raises(ConfigError, match=f"k = {k};"):
            make()
    with pytest.raises(ConfigError, match="top_n = 9, candidates = 8"):
        JprRetriever(retriever=retriever(), top_n=9, candidates=8)


def test_a_retriever_gives_passages_as_documents(joint: JointReranker) -> None:
    chain = JprRetriever(retriever=retriever(), reranker=joint, top_n=3)
    found = chain.invoke(QUERY)
    assert [(d.id, d.metadata[SCORE]) for d in found] == expected(joint, 3)
    for document in found:
        place = NAMES.index(str(document.id))
        assert document.page_content == TEXTS[place]
        assert document.metadata["place"] == place
        assert document.metadata["title"] == document.id


def test_a_batch_is_each_query_by_itself_though_threads_share_the_model(
    joint: JointReranker,
) -> None:
    chain = JprRetriever(retriever=retriever(), reranker=joint)
    queries = [QUERY, "which red ?", "which lime black ?"] * 4
    assert chain.batch(queries) == [chain.invoke(query) for query in queries]


def test_no_more_candidates_are_looked_at_than_is_said() -> None:
    few = JprRetriever(
        retriever=retriever(), reranker=FirstStageOrder(), top_n=4, candidates=4
    ).invoke(QUERY)
    assert [document.id for document in few] == NAMES[:4]


def test_a_pipeline_is_a_retriever(tmp_path: Path) -> None:
    joint = JointReranker.load(write_pointer(tmp_path / "joint", answers=True), device="cpu")
    pipeline = Pipeline(retriever(), joint, SpanReader(joint), k=3, candidates=7)
    found = JprRetriever.from_pipeline(pipeline).invoke(QUERY)
    chosen = pipeline.ask(QUERY).ranking.hits
    assert [document.id for document in found] == [hit.passage.id for hit in chosen]


def test_a_compressor_leaves_the_event_loop_alone() -> None:
    async def ask(reranker: ThreadNoted) -> bool:
        compressor = JprCompressor(reranker=reranker, top_n=2)
        kept = await compressor.acompress_documents(documents(), QUERY)
        assert [document.metadata["title"] for document in kept] == NAMES[:2]
        return reranker.left_the_callers

    assert asyncio.run(ask(ThreadNoted()))


def test_a_retriever_leaves_the_event_loop_alone() -> None:
    async def ask(reranker: ThreadNoted) -> bool:
        found = await JprRetriever(retriever=retriever(), reranker=reranker).ainvoke(QUERY)
        assert [document.id for document in found] == NAMES[:5]
        return reranker.left_the_callers

    assert asyncio.run(ask(ThreadNoted()))


def test_both_are_links_of_a_chain(joint: JointReranker) -> None:
    first = JprRetriever(retriever=retriever(), reranker=FirstStageOrder(), top_n=10)
    compressor = JprCompressor(reranker=joint, top_n=2)
    chain = first | RunnableLambda(lambda found: compressor.compress_documents(found, QUERY))
    assert [document.id for document in chain.invoke(QUERY)] == [
        title for title, _ in expected(joint, 2)
    ]


def test_the_model_that_comes_along_finds_both_actors() -> None:
    texts = {
        "Glenn Quinn": "Glenn Quinn played Mark Healy on Roseanne.",
        "Roseanne": "Mark Healy on Roseanne was played by Glenn Quinn.",
        "The Conners": "Ames McNamara joins the cast of Roseanne as Mark.",
    }
    hits = [Hit(Passage(title, title, text), 1.0) for title, text in texts.items()]
    found = JprRetriever(retriever=FunctionRetriever(lambda text, k: hits), top_n=2).invoke(
        "Who plays Mark on the TV show Roseanne?"
    )
    assert {"The Conners"} < {document.id for document in found}
