import asyncio
from collections.abc import Iterable, Iterator

import pytest
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from jpr.adapters.llamaindex import JprPostprocessor
from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from jpr.types import Ranking
from tests.adapters.sample import METAS, QUERY, TEXTS, ThreadNoted, expected
from tests.rerank.tiny import NAMES


def nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=f"id-{meta['title']}", text=text, metadata=dict(meta)),
            score=1.0 / (place + 1),
        )
        for place, (text, meta) in enumerate(zip(TEXTS, METAS, strict=True))
    ]


def test_nodes_are_those_that_the_reranker_chooses(joint: JointReranker) -> None:
    given = nodes()
    kept = JprPostprocessor(reranker=joint, top_n=3).postprocess_nodes(given, query_str=QUERY)
    assert [(found.metadata["title"], found.score) for found in kept] == expected(joint, 3)
    for found in kept:
        place = NAMES.index(found.metadata["title"])
        assert found.node is given[place].node  # with its id, metadata and relations
    assert given == nodes()
    bundled = JprPostprocessor(reranker=joint, top_n=3).postprocess_nodes(given, QueryBundle(QUERY))
    assert bundled == kept


def test_only_the_text_is_read_and_not_the_metadata_before_it() -> None:
    class Noted(FirstStageOrder):
        texts: list[str]

        def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
            (given,) = rankings
            self.texts = [hit.passage.text for hit in given.hits]
            return super().rank_many([given], k)

    noted = Noted()
    JprPostprocessor(reranker=noted).postprocess_nodes(nodes(), query_str=QUERY)
    assert noted.texts == TEXTS


def test_the_first_stages_scores_reach_the_reranker() -> None:
    kept = JprPostprocessor(reranker=FirstStageOrder(), top_n=2).postprocess_nodes(
        nodes(), query_str=QUERY
    )
    assert [found.score for found in kept] == [1.0, 0.5]


def test_more_than_there_are_is_all_and_nothing_is_nothing(joint: JointReranker) -> None:
    post = JprPostprocessor(reranker=joint, top_n=99)
    kept = post.postprocess_nodes(nodes(), query_str=QUERY)
    assert sorted(found.metadata["page"] for found in kept) == list(range(len(NAMES)))
    assert post.postprocess_nodes([], query_str=QUERY) == []


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_without_meaning_is_refused_at_once(k: int) -> None:
    with pytest.raises(ConfigError, match=f"k = {k};"):
        JprPostprocessor(top_n=k)


def test_nodes_without_a_query_are_refused() -> None:
    with pytest.raises(DataError, match="query_str"):
        JprPostprocessor().postprocess_nodes(nodes())


def test_it_leaves_the_event_loop_alone() -> None:
    async def ask(reranker: ThreadNoted) -> bool:
        post = JprPostprocessor(reranker=reranker, top_n=2)
        kept = await post.apostprocess_nodes(nodes(), query_str=QUERY)
        assert [found.metadata["title"] for found in kept] == NAMES[:2]
        return reranker.left_the_callers

    assert asyncio.run(ask(ThreadNoted()))


def test_it_is_written_down_and_read_again() -> None:
    post = JprPostprocessor(top_n=3)
    assert post.to_dict()["class_name"] == "JprPostprocessor"
    assert JprPostprocessor.from_json(post.to_json()).top_n == 3
