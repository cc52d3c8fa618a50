"""The clients that people have, unmodified, against our service."""

import asyncio
from collections.abc import Iterator

import cohere
import pytest
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.rankers.jina import JinaRanker
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.postprocessor.jinaai_rerank import JinaRerank

from jpr.pipeline import Pipeline
from jpr.rerank.joint import JointReranker
from jpr.serve.limits import ServiceLimits
from jpr.serve.tokens import Tokens
from jpr.types import Hit, Passage, Question
from tests.serve.running import QUESTION, running

DOCUMENTS = ["red which colour red", "blue which colour", "green", "red which colour", "pink ?"]


def chosen(pipeline: Pipeline, k: int) -> list[int]:
    """What the reranker itself chooses."""
    hits = [Hit(Passage(str(at), "", text), -float(at)) for at, text in enumerate(DOCUMENTS)]
    assert isinstance(pipeline.reranker, JointReranker)
    ranking = pipeline.reranker.rank(Question("1", QUESTION), hits, k)
    return [int(hit.passage.id) for hit in ranking.hits]


@pytest.fixture
def client(url: str) -> Iterator[cohere.ClientV2]:
    with cohere.ClientV2(api_key="any", base_url=url) as opened:
        yield opened


def test_cohere_version_2(client: cohere.ClientV2, pipeline: Pipeline) -> None:
    found = client.rerank(model="rerank-v3.5", query=QUESTION, documents=DOCUMENTS, top_n=3)
    assert [result.index for result in found.results] == chosen(pipeline, 3)
    scores = [result.relevance_score for result in found.results]
    assert scores == sorted(set(scores), reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert found.meta is not None
    assert found.meta.tokens is not None
    assert found.meta.tokens.input_tokens == 43  # [CLS] which colour ? [SEP] … [SEP], five times
    tree = found.model_dump()["tree"]  # ours, under its own key
    assert [node["passage"] for node in tree["nodes"] if node["is_new"]] == [
        str(result.index) for result in found.results
    ]


def test_cohere_version_1_with_fields(url: str, pipeline: Pipeline) -> None:
    documents = [{"text": text, "page": str(at)} for at, text in enumerate(DOCUMENTS)]
    with cohere.Client(api_key="any", base_url=url) as client:
        found = client.rerank(query=QUESTION, documents=documents, top_n=2, return_documents=True)
        assert [result.index for result in found.results] == chosen(pipeline, 2)
        first = found.results[0]
        assert first.document is not None
        assert first.document.model_dump() == documents[first.index]  # what we do not know survives
        twice = client.rerank(
            query=QUESTION,
            documents=[{"a": "red", "b": 7, "text": "pink"}],
            rank_fields=["a", "b"],
        )
        assert [result.index for result in twice.results] == [0]


def test_cohere_gets_all_documents_unless_it_says_how_many(client: cohere.ClientV2) -> None:
    found = client.rerank(model="any", query=QUESTION, documents=DOCUMENTS * 5)
    assert sorted(result.index for result in found.results) == list(range(25))
    nodes = found.model_dump()["tree"]["nodes"]
    assert sum(node["is_new"] for node in nodes) == 20  # the others follow independently


def test_cohere_gets_the_spans_of_answers(client: cohere.ClientV2) -> None:
    expected = cohere.RerankRelevantSpans(mode="enabled", threshold=0.0, max_spans=2)
    found = client.rerank(
        model="any", query=QUESTION, documents=DOCUMENTS[:2], relevant_spans=expected
    )
    for result in found.results:
        assert result.relevant_spans
        assert len(result.relevant_spans) <= 2
        for span in result.relevant_spans:
            assert DOCUMENTS[result.index][span.start : span.end].strip()
            assert 0 < span.score <= 1


def test_cohere_asynchronously(url: str, pipeline: Pipeline) -> None:
    async def ask() -> list[int]:
        async with cohere.AsyncClientV2(api_key="any", base_url=url) as client:
            asked = [
                client.rerank(model="any", query=QUESTION, documents=DOCUMENTS, top_n=k)
                for k in (1, 2, 3)
            ]
            return [result.index for one in await asyncio.gather(*asked) for result in one.results]

    assert asyncio.run(ask()) == [*chosen(pipeline, 1), *chosen(pipeline, 2), *chosen(pipeline, 3)]


def test_cohere_sees_our_errors(pipeline: Pipeline) -> None:
    with (
        running(
            pipeline, ServiceLimits(passages=4), tokens=Tokens.of_text("0123456789abcdef", "here")
        ) as url,
        cohere.ClientV2(api_key="guessed", base_url=url) as intruder,
        cohere.ClientV2(api_key="0123456789abcdef", base_url=url) as client,
    ):
        with pytest.raises(cohere.UnauthorizedError, match="token"):
            intruder.rerank(model="any", query=QUESTION, documents=DOCUMENTS)
        with pytest.raises(cohere.core.ApiError, match="5 documents; send at most 4"):
            client.rerank(model="any", query=QUESTION, documents=DOCUMENTS)


def test_jina_as_haystack_calls_it(url: str, pipeline: Pipeline) -> None:
    key = Secret.from_token("any")
    ranker = JinaRanker(api_key=key, base_url=f"{url}/v1/rerank", top_k=3)
    given = [Document(content=text, meta={"place": at}) for at, text in enumerate(DOCUMENTS)]
    found = ranker.run(QUESTION, given)
    assert [document.meta["place"] for document in found["documents"]] == chosen(pipeline, 3)
    assert found["meta"]["usage"]["total_tokens"] == 43
    with pytest.raises(RuntimeError, match="query: String should have at least 1 character"):
        ranker.run("", given)


def test_jina_as_llama_index_calls_it(url: str, pipeline: Pipeline) -> None:
    reranker = JinaRerank(top_n=2, base_url=f"{url}/v1", api_key="any")
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in DOCUMENTS]
    found = reranker.postprocess_nodes(nodes, QueryBundle(QUESTION))
    places = [[node.node_id for node in nodes].index(one.node.node_id) for one in found]
    assert places == chosen(pipeline, 2)
    reranker._session.close()
