import pandas as pd
import pyterrier as pt
import pytest

from jpr.adapters.pyterrier import JprTransformer
from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.rerank.order import FirstStageOrder
from tests.adapters.sample import METAS, QUERY, TEXTS, expected
from tests.rerank.tiny import NAMES, QUESTION, hits


def results(qid: str = "1", names: list[str] = NAMES) -> pd.DataFrame:
    """What a first stage finds, with a column that is none of ours."""
    return pd.DataFrame(
        [
            {
                "qid": qid,
                "query": QUERY,
                "docno": f"id-{name}",
                "title": name,
                "text": TEXTS[NAMES.index(name)],
                "page": METAS[NAMES.index(name)]["page"],
                "score": 1.0 / (rank + 1),
                "rank": rank,
            }
            for rank, name in enumerate(names)
        ]
    )


def test_it_reranks_the_first_of_a_first_stage(joint: JointReranker) -> None:
    bm25 = pt.Transformer.from_df(results())
    found = (bm25 % 6 >> JprTransformer(joint, k=3)).search(QUERY)
    own = joint.rank(QUESTION, hits(NAMES[:6]), 3).hits
    assert found["title"].tolist() == [hit.passage.title for hit in own]
    assert found["score"].tolist() == pytest.approx([hit.score for hit in own])
    assert found["rank"].tolist() == [0, 1, 2]
    assert found["docno"].tolist() == [f"id-{title}" for title in found["title"]]
    assert found["page"].tolist() == [NAMES.index(title) for title in found["title"]]


def test_queries_are_apart_and_the_frame_is_left_as_it_is(joint: JointReranker) -> None:
    both = pd.concat([results("1"), results("2", NAMES[:4])]).sample(frac=1, random_state=0)
    before = both.copy()
    found = JprTransformer(joint, k=3).transform(both)
    pd.testing.assert_frame_equal(both, before)
    for qid, names in (("1", NAMES), ("2", NAMES[:4])):
        own = joint.rank(QUESTION, hits(names), 3).hits
        rows = found[found["qid"] == qid]
        assert rows["title"].tolist() == [hit.passage.title for hit in own]
        assert rows["rank"].tolist() == [0, 1, 2]


def test_rows_without_the_id_of_a_query_are_one_query() -> None:
    frame = pd.concat([results("1"), results("2").assign(qid=None)])
    found = JprTransformer(FirstStageOrder(), k=2).transform(frame)
    assert found["title"].tolist() == [*NAMES[:2], *NAMES[:2]]
    assert found["rank"].tolist() == [0, 1, 0, 1]


def test_a_frame_is_read_by_rank() -> None:
    backwards = results().iloc[::-1]
    found = JprTransformer(FirstStageOrder(), k=2).transform(backwards)
    assert found["title"].tolist() == NAMES[:2]
    assert found["score"].tolist() == [1.0, 0.5]


def test_documents_without_scores_are_ranked_too(joint: JointReranker) -> None:
    bare = results()[["qid", "query", "docno", "text", "title"]]
    found = JprTransformer(joint, k=3).transform(bare)
    assert list(zip(found["title"], found["score"], strict=True)) == expected(joint, 3)


def test_more_than_there_are_is_all_and_nothing_is_nothing(joint: JointReranker) -> None:
    assert len(JprTransformer(joint, k=99).transform(results())) == len(NAMES)
    nothing = JprTransformer(joint).transform(results().iloc[:0])
    assert len(nothing) == 0
    assert {"score", "rank"} < set(nothing.columns)


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_without_meaning_is_refused_at_once(k: int) -> None:
    with pytest.raises(ConfigError, match=f"k = {k};"):
        JprTransformer(k=k)


def test_texts_are_needed() -> None:
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        JprTransformer(FirstStageOrder()).transform(results().drop(columns="text"))
    missing = results()
    missing["text"] = missing["text"].where(missing["rank"] != 1)  # what is absent is NaN
    with pytest.raises(DataError, match="document 2 has no text"):
        JprTransformer(FirstStageOrder()).transform(missing)


def test_an_experiment_takes_it(joint: JointReranker) -> None:
    bm25 = pt.Transformer.from_df(results())
    best = expected(joint, 1)[0][0]
    qrels = pd.DataFrame([{"qid": "1", "docno": f"id-{best}", "label": 1}])
    topics = pd.DataFrame([{"qid": "1", "query": QUERY}])
    table = pt.Experiment([bm25 % 100 >> JprTransformer(joint)], topics, qrels, ["recip_rank"])
    assert table["recip_rank"].tolist() == pytest.approx([1.0])


def test_the_library_can_inspect_inputs_and_outputs() -> None:
    jpr = JprTransformer()
    (taken,) = pt.inspect.transformer_inputs(jpr) or []
    assert set(taken) == {"qid", "query", "docno", "text"}
    given = pt.inspect.transformer_outputs(jpr, [*taken, "page"]) or []
    assert set(given) == {*taken, "page", "score", "rank"}
