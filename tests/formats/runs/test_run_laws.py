"""What is written is read back, for anything that a ranking may hold."""

import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.errors import ConfigError, DataError
from jpr.formats.format import detect
from jpr.formats.gold import merged
from jpr.formats.runs import FORMATS, load_rankings, write_rankings
from jpr.formats.runs.trec import is_word
from jpr.types import Hit, Passage, Question, Ranking

law = settings(deadline=None, max_examples=60)
names = st.text(min_size=1, max_size=8)
words = names.filter(is_word)
aliases = st.text(max_size=5).filter(str.strip)
spellings = st.lists(aliases, min_size=1, max_size=2, unique=True).map(tuple)
answers = st.lists(spellings, max_size=3).map(tuple)
annotations = st.lists(answers.filter(bool), max_size=2).map(tuple)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=4)
metas = st.dictionaries(
    st.text(max_size=8).filter(lambda key: key not in ("id", "title", "text", "score")),
    values,
    max_size=2,
) | st.fixed_dictionaries({"passage_id": values, "contents": values, "has_answer": st.booleans()})
passages = st.builds(Passage, names, st.text(), st.text(), metas)
hits = st.builds(Hit, passages, st.floats(allow_nan=False, allow_infinity=False))
questions = st.builds(Question, names, st.text(), answers, annotations, st.text()).filter(
    lambda question: question.answers or not question.annotations
)
rankings = st.builds(Ranking, questions, st.lists(hits, max_size=4).map(tuple))


def runs(one: st.SearchStrategy[Ranking]) -> st.SearchStrategy[list[Ranking]]:
    return st.lists(one, min_size=1, max_size=3, unique_by=lambda ranking: ranking.question.id)


def there_and_back(run: list[Ranking], format: str) -> list[Ranking]:
    stream = io.StringIO()
    write_rankings(run, stream, format)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        path.write_text(stream.getvalue(), encoding="utf-8")
        return load_rankings(path)


@law
@given(runs(rankings))
def test_ctxs_hold_everything(run: list[Ranking]) -> None:
    assert there_and_back(run, "ctxs") == run


@law
@given(runs(rankings))
def test_rank_llm_holds_all_but_the_answers(run: list[Ranking]) -> None:
    bare = [Ranking(Question(r.question.id, r.question.text), r.hits) for r in run]
    assert there_and_back(run, "rank_llm") == bare


with_answers = st.builds(Question, names, st.text(), answers.map(merged))


@law
@given(runs(st.builds(Ranking, with_answers, st.just(()))))
def test_pyserini_separates_answers(run: list[Ranking]) -> None:
    assert there_and_back(run, "pyserini-run") == run


lines = st.text().map(lambda text: text.replace("\n", " "))
one_line = st.builds(Hit, st.builds(Passage, names, lines, lines), st.floats(-1e9, 1e9))


@law
@given(
    runs(st.builds(Ranking, st.builds(Question, names, st.text()), st.lists(one_line).map(tuple)))
)
def test_pyserini_holds_passages_of_one_line(run: list[Ranking]) -> None:
    assert there_and_back(run, "pyserini-run") == run


bare_passages = st.builds(Passage, words, st.just(""), st.just(""))
unique_hits = st.lists(
    st.builds(Hit, bare_passages, st.floats(allow_nan=False, allow_infinity=False)),
    min_size=1,
    max_size=5,
    unique_by=lambda hit: hit.passage.id,
).map(tuple)


@law
@given(runs(st.builds(Ranking, st.builds(Question, words, st.just("")), unique_hits)))
def test_trec_keeps_the_order(run: list[Ranking]) -> None:
    again = there_and_back(run, "trec")
    assert [r.question for r in again] == [r.question for r in run]
    for before, after in zip(run, again, strict=True):
        assert [hit.passage for hit in after.hits] == [hit.passage for hit in before.hits]


@law
@given(
    runs(rankings), st.sampled_from([format.name for format in FORMATS if format.write is not None])
)
def test_what_we_write_is_recognized_as_one_format(run: list[Ranking], name: str) -> None:
    stream = io.StringIO()
    try:
        write_rankings(run, stream, name)
    except DataError:
        return  # ids that the format cannot hold
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        path.write_text(stream.getvalue(), encoding="utf-8")
        if stream.getvalue():
            assert detect(path, FORMATS).name == name


def test_half_a_surrogate_pair_is_escaped() -> None:
    run = [Ranking(Question("q", "\ud83d"), (Hit(Passage("é", "", "x"), 1.0),))]
    assert there_and_back(run, "ctxs") == run


@pytest.mark.parametrize("format", ["ctxs", "rank_llm", "pyserini-run", "trec"])
@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_refused(format: str, score: float) -> None:
    run = [Ranking(Question("q", "?"), (Hit(Passage("p", "", "x"), score),))]
    with pytest.raises(DataError, match="question 'q': passage 'p' has score"):
        write_rankings(run, io.StringIO(), format)


def test_meta_that_is_not_json_is_refused() -> None:
    run = [Ranking(Question("q", "?"), (Hit(Passage("p", "", "x", {"a": {1}}), 1.0),))]
    with pytest.raises(DataError, match="meta cannot be written as JSON"):
        write_rankings(run, io.StringIO())


def test_what_cannot_be_written_says_what_can() -> None:
    with pytest.raises(ConfigError, match=r"choose one of ctxs, .*trec"):
        write_rankings([], io.StringIO(), "ambigprompt")
