from pathlib import Path

import pytest

from jpr.errors import ConfigError, FormatError
from jpr.retrieve.filters import Filter
from jpr.retrieve.index import Index, build_index
from jpr.retrieve.rank_fusion import ReciprocalRanks, ScoreMix
from jpr.retrieve.retrievers import (
    Bm25Retriever,
    DenseRetriever,
    HybridRetriever,
    KeyedRetriever,
    open_retriever,
)
from jpr.types import Passage, Question, Ranking
from tests.retrieve.sample import PASSAGES, WordEncoder, exact

QUESTION = Question("q", "old castle by the river")
MANY = [Question(str(i), p.text) for i, p in enumerate(PASSAGES * 30)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    build_index(PASSAGES, folder, source="test", encoder=WordEncoder())
    return folder


@pytest.fixture(scope="module")
def index(folder: Path) -> Index:
    return Index(folder)


@pytest.fixture(params=["bm25", "dense", "hybrid"])
def retriever(request: pytest.FixtureRequest, folder: Path) -> KeyedRetriever:
    return open_retriever(folder, request.param, encoder=WordEncoder())


def ids(ranking: Ranking) -> list[str]:
    return [hit.passage.id for hit in ranking.hits]


def test_words_find_what_shares_them_and_vectors_find_the_nearest(index: Index) -> None:
    assert ids(Bm25Retriever(index).retrieve(QUESTION, 9)) == ["a 1", "c", "b"]
    dense = DenseRetriever(index, WordEncoder()).retrieve(QUESTION, 3)
    ((*nearest,),) = exact(PASSAGES, [QUESTION], 3)
    assert ids(dense) == [id for id, _ in nearest]
    assert [hit.score for hit in dense.hits] == pytest.approx([s for _, s in nearest], abs=0.01)


def test_passages_come_with_all_that_is_known_of_them(retriever: KeyedRetriever) -> None:
    best = retriever.retrieve(QUESTION, 1).hits[0].passage
    assert best == PASSAGES[0]
    assert best.meta == PASSAGES[0].meta


def test_hybrid_is_the_fusion_of_both_rankings(index: Index) -> None:
    encoder = WordEncoder()
    words = index.search_bm25(QUESTION.text, 300)
    (near,) = index.search_dense(encoder.encode_questions([QUESTION.text]), 300)
    for fusion in (ReciprocalRanks((0.4, 0.6)), ScoreMix((0.7, 0.3))):
        found = HybridRetriever(index, encoder, fusion=fusion).retrieve(QUESTION, 4)
        expected = fusion([words, near])[:4]
        assert [(hit.passage, hit.score) for hit in found.hits] == [
            (index.store[row], score) for row, score in expected
        ]


def test_a_question_of_two_parts_finds_the_best_of_each(retriever: KeyedRetriever) -> None:
    parts = "old castle by the river?", "market sells fish from the harbour?"
    firsts = {ids(retriever.retrieve(Question("q", part), 9))[0] for part in parts}
    found = retriever.retrieve(Question("q", " ".join(parts)), 9)
    assert firsts == {"a 1", "é"}
    assert firsts <= {hit.passage.id for hit in found.hits if hit.score == 1}


def test_depth_bounds_what_is_fused_and_k_is_always_reached(index: Index) -> None:
    encoder = WordEncoder()
    shallow = HybridRetriever(index, encoder, depth=1)
    assert len(shallow.retrieve(QUESTION, 1).hits) == 1
    assert len(shallow.retrieve(QUESTION, 5).hits) == 5  # 1 is less than k


def test_many_questions_get_what_each_gets_alone(retriever: KeyedRetriever) -> None:
    together = list(retriever.retrieve_many(iter(MANY), 4))
    assert [ranking.question for ranking in together] == MANY
    for ranking in together[:6]:
        assert ids(retriever.retrieve(ranking.question, 4)) == ids(ranking)
    assert list(retriever.retrieve_many([], 4)) == []


def test_a_larger_k_only_adds(retriever: KeyedRetriever) -> None:
    longest = ids(retriever.retrieve(QUESTION, 99))
    assert len(set(longest)) == len(longest) <= len(PASSAGES)
    for k in range(1, 6):
        assert ids(retriever.retrieve(QUESTION, k)) == longest[:k]


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
@pytest.mark.parametrize(
    ("where", "accepted"),
    [
        ({"source": ["guide"]}, {"a 1", "b"}),
        ({"source": ["guide", "news"], "year": ["1999"]}, {"a 1"}),
        ({"source": ["nowhere"]}, set()),
        ({"source": []}, set()),
    ],
)
def test_filters_hold_for_all_kinds(
    folder: Path, kind: str, where: Filter, accepted: set[str]
) -> None:
    found = open_retriever(folder, kind, encoder=WordEncoder(), where=where)
    assert set(ids(found.retrieve(QUESTION, 9))) == accepted


def test_a_filter_without_meaning_is_refused_before_any_search(index: Index) -> None:
    with pytest.raises(ConfigError, match="no passage has a field 'colour'"):
        Bm25Retriever(index, {"colour": ["red"]})
    with pytest.raises(ConfigError, match="no passage has a field 'colour'"):
        HybridRetriever(index, WordEncoder(), {"colour": ["red"]})


def test_hybrid_is_the_default_where_there_are_vectors(folder: Path, tmp_path: Path) -> None:
    assert isinstance(open_retriever(folder, encoder=WordEncoder()), HybridRetriever)
    build_index(PASSAGES, tmp_path, source="words alone")
    assert isinstance(open_retriever(tmp_path), Bm25Retriever)
    for kind in ("dense", "hybrid"):
        with pytest.raises(ConfigError, match="has no vectors; build it with an encoder"):
            open_retriever(tmp_path, kind)
    with pytest.raises(ConfigError, match="has no vectors"):
        DenseRetriever(Index(tmp_path), WordEncoder())


def test_an_encoder_of_another_key_is_refused(index: Index) -> None:
    for retriever in (DenseRetriever, HybridRetriever):
        with pytest.raises(ConfigError, match="vectors of encoder words, not of other"):
            retriever(index, WordEncoder(key="other"))


def test_two_rankings_need_two_weights(index: Index) -> None:
    with pytest.raises(ConfigError, match="2 rankings but 1 weights"):
        HybridRetriever(index, WordEncoder(), fusion=ReciprocalRanks((1.0,)))


def test_keys_differ_by_all_that_changes_a_ranking(index: Index, tmp_path: Path) -> None:
    build_index(
        [*PASSAGES, Passage("g", "", "more")], tmp_path, source="test", encoder=WordEncoder()
    )
    encoder, guide, news = WordEncoder(), {"source": ["guide"]}, {"source": ["news"]}
    different: list[KeyedRetriever] = [
        Bm25Retriever(index),
        Bm25Retriever(Index(tmp_path)),
        Bm25Retriever(index, guide),
        Bm25Retriever(index, news),
        DenseRetriever(index, encoder),
        DenseRetriever(index, encoder, guide),
        HybridRetriever(index, encoder),
        HybridRetriever(index, encoder, guide),
        HybridRetriever(index, encoder, fusion=ReciprocalRanks((0.5, 0.5))),
        HybridRetriever(index, encoder, fusion=ReciprocalRanks((0.4, 0.6), constant=10)),
        HybridRetriever(index, encoder, fusion=ScoreMix((0.4, 0.6))),
        HybridRetriever(index, encoder, depth=100),
    ]
    assert len({retriever.key for retriever in different}) == len(different)
    same = {"source": ["guide", "guide"]}
    assert Bm25Retriever(index, same).key == Bm25Retriever(index, guide).key


def test_a_folder_without_an_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="jpr index CORPUS"):
        open_retriever(tmp_path)
