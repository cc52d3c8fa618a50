import inspect
from itertools import pairwise

import pytest

from jpr.adapters.crossencoder import JprCrossEncoder
from jpr.errors import ConfigError
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from jpr.types import Hit, Passage
from tests.adapters.sample import QUERY, TEXTS
from tests.rerank.long_documents import ANSWERS, ASKED, DOCUMENTS
from tests.rerank.tiny import NAMES, QUESTION


def test_the_signature_begins_as_the_librarys() -> None:
    """As in sentence-transformers 6.2; what follows there is about torch."""
    theirs = "(self, query, documents, top_k=None, return_documents=False)"
    ours = inspect.signature(JprCrossEncoder.rank)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in ours.parameters.values()]
    assert str(inspect.Signature(plain)) == theirs


def test_places_and_scores_are_the_rerankers(joint: JointReranker) -> None:
    hits = [Hit(Passage(str(i), "", text), 0.0) for i, text in enumerate(TEXTS)]
    own = joint.rank(QUESTION, hits, 3).hits
    found = JprCrossEncoder(joint).rank(QUERY, TEXTS, top_k=3)
    assert [each["corpus_id"] for each in found] == [int(hit.passage.id) for hit in own]
    assert [each["score"] for each in found] == pytest.approx([hit.score for hit in own])
    assert all(set(each) == {"corpus_id", "score"} for each in found)


def test_texts_are_returned_on_request(joint: JointReranker) -> None:
    found = JprCrossEncoder(joint).rank(QUERY, TEXTS, return_documents=True)
    assert [each["text"] for each in found] == [TEXTS[each["corpus_id"]] for each in found]


def test_all_come_back_unless_it_is_said(joint: JointReranker) -> None:
    ranker = JprCrossEncoder(joint)
    for top_k in (None, 99):
        found = ranker.rank(QUERY, TEXTS, top_k)
        assert sorted(each["corpus_id"] for each in found) == list(range(len(NAMES)))
        scores = [each["score"] for each in found]
        assert all(one > other for one, other in pairwise(scores))
    assert ranker.rank(QUERY, []) == []


def test_answers_far_into_long_documents_are_ranked_first() -> None:
    found = JprCrossEncoder().rank(ASKED, DOCUMENTS, top_k=3)
    assert {each["corpus_id"] for each in found} - {3} | {1} == ANSWERS.keys()  # 3 is like 1


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_without_meaning_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=f"k = {k};"):
        JprCrossEncoder(FirstStageOrder()).rank(QUERY, TEXTS, k)
