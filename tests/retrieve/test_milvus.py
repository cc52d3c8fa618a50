"""Against milvus-lite; with `-m slow` also against a real server (`milvus_server.py`)."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jpr.encode.encoder_folder import load_encoder
from jpr.encode.vectors import vectors_for
from jpr.errors import ConfigError, DataError, FormatError, MissingExtraError
from jpr.retrieve import milvus
from jpr.retrieve.engines import IndexOptions, IndexSettings
from jpr.retrieve.filters import Filter
from jpr.retrieve.index import build_index
from jpr.retrieve.milvus_retriever import (
    NAME,
    MilvusManifest,
    MilvusRetriever,
    connect,
    read_milvus_manifest,
)
from jpr.retrieve.retrievers import open_retriever
from jpr.stages import Encoder
from jpr.types import Passage, Question
from tests.cli.running import jpr
from tests.encode.tiny import write_encoder
from tests.retrieve.milvus_server import running_server
from tests.retrieve.sample import PASSAGES, WordEncoder, exact, random_passages

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

BY_ID = attrgetter("id")
QUESTION = Question("q", "old castle by the river")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("milvus")) as uri:
        yield uri


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("lite") / "milvus.db")


@pytest.fixture(params=["lite", pytest.param("server", marks=pytest.mark.slow)])
def uri(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@dataclass(frozen=True)
class WithModel(IndexOptions):
    """Options with an encoder at hand."""

    model: Encoder = field(default_factory=WordEncoder)

    def load_encoder(self) -> Encoder:  # type: ignore[override]  # an invented one
        return self.model


def build(
    folder: Path,
    uri: str,
    passages: Iterable[Passage] = PASSAGES,
    model: Encoder | None = None,
    vectors: Path | None = None,
    *,
    graph: str = "hnsw",
    collection: str | None = None,
    encoder: str | None = None,
) -> MilvusManifest:
    """Build an index as `jpr index` does."""
    options = WithModel(
        folder,
        "test",
        encoder=encoder,
        vectors=vectors,
        uri=uri,
        settings=IndexSettings(collection=collection or f"jpr_{folder.name}", graph=graph),
        model=model or WordEncoder(),
    )
    summary = milvus.build(options.checked(iter(passages)), options)
    made = read_milvus_manifest(folder / NAME)
    assert summary == f"indexed {made.passages:,} passages in Milvus at {uri}"
    return made


def found(folder: Path, question: Question, k: int, where: Filter | None = None) -> list[str]:
    ranking = MilvusRetriever(folder, WordEncoder(), where).retrieve(question, k)
    return [hit.passage.id for hit in ranking.hits]


def test_passages_come_back_whole_and_best_first(tmp_path: Path, uri: str) -> None:
    contents = build(tmp_path / "a", uri)
    retriever = MilvusRetriever(tmp_path / "a", WordEncoder())
    questions = [QUESTION, Question("r", "fish market")]
    rankings = list(retriever.retrieve_many(questions, 9))
    assert [ranking.question for ranking in rankings] == questions
    for ranking, nearest in zip(rankings, exact(PASSAGES, questions, 9), strict=True):
        assert [hit.passage.id for hit in ranking.hits] == [id for id, _ in nearest]
        assert [hit.score for hit in ranking.hits] == pytest.approx(
            [score for _, score in nearest], abs=1e-5
        )
        assert sorted((hit.passage for hit in ranking.hits), key=BY_ID) == sorted(
            PASSAGES, key=BY_ID
        )
    assert (contents.passages, contents.fields) == (6, ("source", "tags", "title", "year"))


FILTERS: list[tuple[Filter, set[str]]] = [
    ({"source": ["guide"]}, {"a 1", "b"}),
    ({"source": ["guide", "news"], "year": [1999]}, {"a 1"}),
    ({"year": ["1999", 2001.0]}, {"a 1", "b"}),
    ({"tags": ["ruin"]}, {"c"}),
    ({"title": ["Market"]}, {"é"}),
    ({"source": ['x" or 1==1 or "']}, {"d"}),
    ({"source": ["back\\slash"]}, {"é"}),
    ({"source": ['guide"]) or array_contains_any(terms, [""']}, set()),
    ({"source": ["\\", '\\"', '"', "'", "\n", "{}", "%", "é", ""]}, set()),
    ({"source": []}, set()),
]


def test_filters_accept_what_they_name_and_cannot_be_broken_out_of(
    tmp_path: Path, uri: str
) -> None:
    build(tmp_path / "f", uri)
    for where, expected in FILTERS:
        assert set(found(tmp_path / "f", QUESTION, 9, where)) == expected, where
    with pytest.raises(ConfigError, match="'sourc'"):
        found(tmp_path / "f", QUESTION, 9, {"sourc": ["guide"]})


def test_a_text_longer_than_a_field_comes_back_whole(tmp_path: Path, uri: str) -> None:
    long = Passage("long", "Long", "é€😀 castle " * 20_000)
    assert len(long.text.encode()) > 3 * 65_535
    build(tmp_path / "l", uri, [*PASSAGES, long])
    ranking = MilvusRetriever(tmp_path / "l", WordEncoder()).retrieve(Question("q", "castle"), 9)
    assert long in [hit.passage for hit in ranking.hits]


@pytest.mark.parametrize(("graph", "least"), [("hnsw", 0.98), ("ivf", 0.5)])
def test_most_of_the_nearest_are_found(tmp_path: Path, uri: str, graph: str, least: float) -> None:
    passages = random_passages(600)
    build(tmp_path / graph, uri, passages, graph=graph)
    retriever = MilvusRetriever(tmp_path / graph, WordEncoder())
    asked = [Question(p.id, p.text) for p in random_passages(10, seed=1)]
    rankings = list(retriever.retrieve_many(asked, 20))
    near = 0
    for ranking, nearest in zip(rankings, exact(passages, asked, 20), strict=True):
        _, last = nearest[-1]
        near += sum(hit.score > last - 0.01 for hit in ranking.hits)  # SQ8 rounds
    assert near / 200 >= least


def test_a_new_build_takes_the_place_of_the_old(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = build(tmp_path / "r", uri)
    with pytest.raises(DataError, match="'a 1'"):
        build(tmp_path / "r", uri, [*PASSAGES, PASSAGES[0]])
    monkeypatch.setattr(milvus, "_CHUNK", 4)
    with pytest.raises(DataError, match="7 passages but 6 distinct ids"):
        build(tmp_path / "r", uri, [*PASSAGES, PASSAGES[0]])
    assert found(tmp_path / "r", QUESTION, 1) == ["a 1"]
    new = build(tmp_path / "r", uri, random_passages(10))
    assert len(found(tmp_path / "r", QUESTION, 99)) == 10
    client = connect(uri)
    assert not client.has_collection(old.collection)
    assert client.describe_alias("jpr_r")["collection_name"] == new.collection
    mine = [name for name in client.list_collections() if name.startswith("jpr_r")]
    assert mine == [new.collection]


class Failing(WordEncoder):
    """Stops after some passages, as a killed process would."""

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        if self.encoded >= 100:
            raise KeyboardInterrupt
        return super().encode_passages(passages)


def interrupted(folder: Path, uri: str, passages: Sequence[Passage]) -> None:
    with pytest.raises(KeyboardInterrupt):
        build(folder, uri, passages, Failing())


def test_an_interrupted_build_resumes(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "_CHUNK", 50)
    passages = random_passages(220)
    interrupted(tmp_path / "p", uri, passages)
    encoder = WordEncoder()
    build(tmp_path / "p", uri, iter(passages), encoder)
    assert encoder.encoded == 120
    assert sorted(found(tmp_path / "p", QUESTION, 999)) == sorted(p.id for p in passages)
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"lock", "milvus.json"}


def test_vectors_made_before_are_those_made_on_the_way(
    tmp_path: Path, lite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "_CHUNK", 50)
    passages = random_passages(220)
    interrupted(tmp_path / "s", lite, passages)
    vectors = tmp_path / "vectors"
    vectors_for(passages, WordEncoder(), vectors, chunk=64)
    for wrong in (passages[:210], [*passages, *random_passages(9, seed=2)]):
        with pytest.raises(DataError, match=r"vectors of (220|other) passages"):
            build(tmp_path / "w", lite, wrong, vectors=vectors)
    build(tmp_path / "s", lite, passages, vectors=vectors)
    asked = Question("q", passages[215].text)
    retriever = MilvusRetriever(tmp_path / "s", WordEncoder())
    (nearest,) = exact(passages, [asked], 1)
    (hit,) = retriever.retrieve(asked, 1).hits
    assert hit.passage.id == nearest[0][0]
    assert hit.score == pytest.approx(nearest[0][1], abs=0.01)


@pytest.mark.parametrize("count", [20, 220])
def test_an_interrupted_build_of_another_corpus_is_thrown_away(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(milvus, "_CHUNK", 50)
    interrupted(tmp_path / "o", uri, random_passages(220))
    other = random_passages(count, seed=1)
    with pytest.raises(DataError, match="another corpus"):
        build(tmp_path / "o", uri, other)
    build(tmp_path / "o", uri, other)
    assert len(found(tmp_path / "o", QUESTION, 999)) == count


def test_what_milvus_cannot_hold_is_named(tmp_path: Path, lite: str) -> None:
    bad = {
        "no passages": [],
        "empty id": [Passage("", "", "x")],
        "title is 70,000 bytes": [Passage("x", "é" * 35_000, "x")],
        "surrogate": [Passage("x", "", "\ud800")],
        "meta is 70,.* bytes of JSON": [Passage("x", "", "", {"a": "z" * 70_000})],
        "5,001 values": [Passage("x", "", "", {"a": list(range(5_000))})],
        "33,000,000|text is 503 times": [Passage("x", "", "z" * 33_000_000)],
    }
    for message, passages in bad.items():
        with pytest.raises(DataError, match=message):
            build(tmp_path / "b", lite, passages)


def test_what_does_not_fit_is_refused(tmp_path: Path, lite: str) -> None:
    name = build(tmp_path / "x", lite).collection
    with pytest.raises(ConfigError, match=r"words.* other"):
        MilvusRetriever(tmp_path / "x", WordEncoder(key="other"))
    with pytest.raises(ConfigError, match="16,384"):
        found(tmp_path / "x", QUESTION, 20_000)
    with pytest.raises(ConfigError, match="is a collection"):
        build(tmp_path / "y", lite, collection=name)
    build_index(PASSAGES, tmp_path / "local", source="")
    with pytest.raises(ConfigError, match="engine files"):
        build(tmp_path / "local", lite)
    with pytest.raises(ConfigError, match="hnsw or ivf"):
        build(tmp_path / "x", lite, graph="flat")
    with pytest.raises(ConfigError, match="a-b"):
        build(tmp_path / "a-b", lite)
    (tmp_path / "x" / "milvus.json").write_text('{"format": 9}')
    with pytest.raises(FormatError, match="format 9"):
        MilvusRetriever(tmp_path / "x", WordEncoder())
    (tmp_path / "x" / "milvus.json").write_text("{")
    with pytest.raises(FormatError, match=r"milvus\.json"):
        MilvusRetriever(tmp_path / "x", WordEncoder())


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "nonsense"])
def test_a_server_that_is_not_there_is_named(tmp_path: Path, uri: str) -> None:
    with pytest.raises(ConfigError, match=f"{uri}: Milvus"):
        build(tmp_path / "n", uri)


def test_it_is_opened_like_any_index(tmp_path: Path, lite: str) -> None:
    build(tmp_path / "i", lite)
    for kind in (None, "dense"):
        opened = open_retriever(tmp_path / "i", kind, encoder=WordEncoder())
        assert opened.retrieve(QUESTION, 1).hits[0].passage == PASSAGES[0]
    for kind in ("bm25", "hybrid"):
        with pytest.raises(ConfigError, match="dense only"):
            open_retriever(tmp_path / "i", kind, encoder=WordEncoder())


def test_the_command_is_the_same(tmp_path: Path, lite: str) -> None:
    folder = write_encoder(tmp_path)
    build(tmp_path / "e", lite, model=load_encoder(folder), encoder=str(folder))
    options = ("-k", 3, "--where", "source=guide", "--json")
    out = json.loads(jpr("retrieve", tmp_path / "e", "castle by the river", *options))
    assert {hit["id"] for hit in out["hits"]} == {"a 1", "b"}


def test_without_pymilvus_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[milvus\]'"):
        build(tmp_path / "n", str(tmp_path / "milvus.db"))


def test_keys_differ_by_corpus_and_filter(tmp_path: Path, lite: str) -> None:
    build(tmp_path / "k", lite)
    keys = {
        MilvusRetriever(tmp_path / "k", WordEncoder(), where).key
        for where in (None, {"source": ["guide"]}, {"source": ["news"]})
    }
    build(tmp_path / "m", lite, random_passages(5))
    keys.add(MilvusRetriever(tmp_path / "m", WordEncoder()).key)
    assert len(keys) == 4
