from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError
from jpr.retrieve.bm25 import Bm25Searcher, Bm25Writer
from jpr.retrieve.filters import Filter, Value, clauses, parse_filter, term, terms
from jpr.types import Passage

PASSAGES = [
    Passage("0", "Oslo", "a city", {"source": "wiki", "year": 1999, "tags": ["north", "sea"]}),
    Passage("1", "Oslo", "a city", {"source": "news", "year": 2001, "new": True}),
    Passage("2", "Bergen", "a city", {"source": "wiki", "year": 2001.0, "tags": ["sea"]}),
    Passage("3", "Ålesund", "a city", {"source": "", "x=y": "z", "long": "word " * 1000}),
    Passage("4", "", "a town", {"nested": {"source": "wiki"}, "none": None}),
]
FIELDS = {"title"} | {field for passage in PASSAGES for field in passage.meta}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Bm25Searcher:
    folder = tmp_path_factory.mktemp("words")
    writer = Bm25Writer(folder)
    for row, passage in enumerate(PASSAGES):
        writer.add(row, passage)
    writer.close()
    return Bm25Searcher(folder)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"source": ["wiki"]}, [0, 2]),
        ({"source": ["wiki", "news"]}, [0, 1, 2]),
        ({"source": ["wiki"], "year": [2001]}, [2]),
        ({"year": ["2001"]}, [1, 2]),  # as the command line writes it
        ({"year": [2001.0]}, [1, 2]),
        ({"tags": ["sea"]}, [0, 2]),
        ({"new": [True]}, [1]),
        ({"new": ["true"]}, [1]),
        ({"title": ["Oslo"]}, [0, 1]),
        ({"title": ["Ålesund"]}, [3]),
        ({"title": ["oslo"]}, []),  # exact
        ({"source": [""]}, [3]),
        ({"x=y": ["z"]}, [3]),
        ({"long": ["word " * 1000]}, [3]),
        ({"nested": ["wiki"]}, []),
        ({"none": ["null"]}, []),
        ({"source": []}, []),
    ],
)
def test_a_filter_accepts_what_it_says(index: Bm25Searcher, where: Filter, rows: list[int]) -> None:
    asked = clauses(where, FIELDS)
    assert index.rows(asked).tolist() == rows
    assert {row for row, _ in index.search("city", 10, asked)} == set(rows) - {4}


def test_a_filter_changes_no_score(index: Bm25Searcher) -> None:
    every = dict(index.search("city", 10))
    found = index.search("city", 10, clauses({"source": ["wiki"]}, FIELDS))
    assert found == [(row, every[row]) for row in (0, 2)]
    assert index.search("nowhere", 10, clauses({"source": ["wiki"]}, FIELDS)) == []


def test_unknown_fields_and_values_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'sorce'.* source, title"):
        clauses({"sorce": ["wiki"]}, {"title", "source"})
    with pytest.raises(ConfigError, match="give a list"):
        clauses({"source": "wiki"}, {"source"})
    with pytest.raises(ConfigError, match="field=value"):
        parse_filter(["source"])


VALUES = st.one_of(st.text(max_size=5), st.integers(), st.booleans())


@given(st.dictionaries(st.text(max_size=4), st.lists(VALUES, max_size=3), max_size=3))
def test_filters_that_mean_the_same_are_the_same(where: dict[str, list[Value]]) -> None:
    turned = {field: values[::-1] * 2 for field, values in reversed(where.items())}
    assert clauses(where, where) == clauses(turned, turned)


@given(st.text(max_size=6), VALUES, st.text(max_size=6), VALUES)
def test_terms_agree_only_where_field_and_value_do(a: str, x: Value, b: str, y: Value) -> None:
    def spelt(value: Value) -> str:
        return value if isinstance(value, str) else str(value).lower()

    assert (term(a, x) == term(b, y)) == ((a, spelt(x)) == (b, spelt(y)))


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=3))
def test_a_passage_has_a_term_for_every_value(meta: dict[str, Value]) -> None:
    assert list(terms(Passage("1", "", "", meta))) == [term(key, meta[key]) for key in meta]


def test_rows_of_many_passages_come_in_order(tmp_path: Path) -> None:
    writer = Bm25Writer(tmp_path)
    for row in reversed(range(500)):
        writer.add(row, Passage(str(row), "", "x", {"odd": row % 2}))
    writer.close()
    rows = Bm25Searcher(tmp_path).rows(clauses({"odd": [1]}, {"odd"}))
    assert np.array_equal(rows, np.arange(1, 500, 2))
