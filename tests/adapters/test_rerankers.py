import asyncio

import pytest
from rerankers import Document
from rerankers.results import RankedResults

from jpr.adapters.rerankers import JprRanker
from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from tests.adapters.sample import METAS, QUERY, TEXTS, ThreadNoted, expected
from tests.rerank.tiny import NAMES

IDS = [f"id-{name}" for name in NAMES]


def test_results_are_the_rerankers_in_the_librarys_records(joint: JointReranker) -> None:
    found = JprRanker(joint).rank(QUERY, TEXTS, IDS, METAS)
    assert isinstance(found, RankedResults)
    assert [(one.title, one.score) for one in found] == expected(joint, len(NAMES))
    assert [one.rank for one in found] == list(range(1, len(NAMES) + 1))
    for one in found:
        place = NAMES.index(one.title)
        assert (one.doc_id, one.text, one.metadata) == (IDS[place], TEXTS[place], METAS[place])
        assert found.get_score_by_docid(one.doc_id) == one.score
    assert [one.doc_id for one in found.top_k(3)] == [one.doc_id for one in found][:3]


def test_documents_of_the_library_keep_what_they_have(joint: JointReranker) -> None:
    given = [
        Document(text, doc_id=i, metadata=m) for text, i, m in zip(TEXTS, IDS, METAS, strict=True)
    ]
    one, two = (JprRanker(joint).rank(QUERY, docs) for docs in (given, given[:1]))
    assert [(r.title, r.score) for r in one] == expected(joint, len(NAMES))
    assert [(r.doc_id, r.metadata) for r in two] == [(IDS[0], METAS[0])]
    renamed = JprRanker(joint).rank(QUERY, given[:1], doc_ids=["other"])
    assert (renamed[0].doc_id, given[0].doc_id) == ("other", IDS[0])


def test_what_has_no_id_has_its_place() -> None:
    ranker = JprRanker(FirstStageOrder())
    assert [one.doc_id for one in ranker.rank(QUERY, TEXTS)] == list(range(len(TEXTS)))
    assert [one.doc_id for one in ranker.rank(QUERY, [Document("a"), Document("b")])] == [0, 1]
    assert [one.text for one in ranker.rank(QUERY, "a text")] == ["a text"]
    assert ranker.rank(QUERY, []).results_count() == 0


def test_one_for_each_is_needed() -> None:
    ranker = JprRanker(FirstStageOrder())
    with pytest.raises(DataError, match="10 docs, but 1 doc_ids"):
        ranker.rank(QUERY, TEXTS, ["a"])
    with pytest.raises(DataError, match="10 docs, but 1 metadata"):
        ranker.rank(QUERY, TEXTS, metadata=[{}])


def test_pictures_and_documents_alone_are_refused() -> None:
    ranker = JprRanker(FirstStageOrder())
    with pytest.raises(DataError, match="document 1 has no text"):
        ranker.rank(QUERY, Document(document_type="image", image_path="a.png"))
    with pytest.raises(ConfigError, match="use rank"):
        ranker.score(QUERY, TEXTS[0])


def test_it_leaves_the_event_loop_alone() -> None:
    async def ask(reranker: ThreadNoted) -> bool:
        found = await JprRanker(reranker).rank_async(QUERY, TEXTS, metadata=METAS)
        assert [one.title for one in found] == NAMES
        return reranker.left_the_callers

    assert asyncio.run(ask(ThreadNoted()))
