"""`jpr.ask`: the bundled models over documents, an index, or the encyclopedia."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jpr import (
    FunctionRetriever,
    Index,
    JointReranker,
    Pipeline,
    SpanReader,
    build_index,
    bundled,
    read_passages,
)
from jpr.bundled import ENCYCLOPEDIA, ask, ask_async, open_pipeline
from jpr.errors import ConfigError, FormatError
from jpr.rerank.order import FirstStageOrder
from jpr.types import Passage, Question

FACTS = {
    "gin.txt": "Eli Whitney invented the cotton gin in 1793.",
    "bell.txt": "Alexander Graham Bell invented the telephone in 1876.",
}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("JPR_CACHE", str(folder))
    return folder


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name, text in FACTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_documents_are_asked(docs: Path, cache: Path) -> None:
    reply = ask("who invented the cotton gin", docs=docs, k=1)
    assert reply.answers[0].text == "Eli Whitney"
    assert reply.ranking.hits[0].passage.meta == {"file": "gin.txt"}
    assert (cache / "jpr" / "documents").is_dir()
    again = asyncio.run(ask_async("who invented the telephone", docs=str(docs), k=1))
    assert again.answers[0].text == "Alexander Graham Bell"


def test_a_list_is_read_through_several_passages(tmp_path: Path) -> None:
    """The second passage does not name the club: only its neighbor says what its names are."""
    surnames = "Aalto Brask Collin Dahl Ekwall Gram Juel Krag Munthe Oxholm Quist Skram Thott Urne"
    names = [f"{first} {last}" for first in ("Ann", "Bea", "Cleo") for last in surnames.split()]
    listed = f"The treasurers of the Ashby rowing club were {', '.join(names)}."
    (tmp_path / "club.txt").write_text(f"The club rows. {listed} It won.", encoding="utf-8")
    (tmp_path / "mill.txt").write_text("Ann Mill built the old mill of Ashby.", encoding="utf-8")
    pipeline = open_pipeline(tmp_path, device="cpu")
    assert isinstance(pipeline.reranker, JointReranker)
    pipeline = replace(pipeline, reader=SpanReader(pipeline.reranker, 0.03))

    def found(pipeline: Pipeline) -> list[str]:
        """The answers in the second passage, as it writes them."""
        reply = pipeline.ask("Who was treasurer of the Ashby rowing club?")
        supports = [one for answer in reply.answers for one in answer.support]
        second = [one for one in supports if one.passage.id == "club.txt#2"]
        return [one.passage.text[slice(*span)] for one in second for span in one.spans]

    assert len(found(pipeline)) > 5
    assert set(found(pipeline)) <= set(names)
    plain = FunctionRetriever(
        lambda text, k: pipeline.retriever.retrieve(Question("1", text), k).hits
    )
    assert len(found(replace(pipeline, retriever=plain))) < 2
    baseline = replace(pipeline, reranker=FirstStageOrder())  # reads nothing
    assert all(not hit.passage.context for hit in baseline.open("treasurer").candidates.hits)


def test_an_index_is_asked_and_models_are_loaded_once(tmp_path: Path) -> None:
    passages = [Passage(name, "", text) for name, text in FACTS.items()]
    build_index(passages, tmp_path / "index", source="facts")
    assert len(Index.open(tmp_path / "index").store) == 2
    first, second = (open_pipeline(index=tmp_path / "index", device="cpu") for _ in range(2))
    assert first.reranker is second.reranker
    assert open_pipeline(index=tmp_path / "index", k=200, device="cpu").candidates == 200
    assert first.ask("who invented the telephone").answers[0].text == "Alexander Graham Bell"


def test_the_encyclopedia_is_asked_where_nothing_else_is() -> None:
    """Of all 100 candidates, README.md and docs/ask.md are asked (`tests/test_docs.py`)."""
    reply = open_pipeline(candidates=20, device="cpu").ask("Who plays Mark on Roseanne?")
    assert "Glenn Quinn" in [answer.text for answer in reply.answers]
    assert len(reply.ranking.hits) == 5


def test_the_vectors_that_come_along_are_those_of_the_encyclopedia() -> None:
    passages = list(read_passages(ENCYCLOPEDIA / "passages.jsonl"))
    stored = bundled._stored_vectors(passages, bundled.shared_encoder("cpu"))
    assert stored is not None
    assert len(stored) == len(passages)


def test_an_encyclopedia_without_its_vectors_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ['{"id": "1", "title": "Bees", "text": "Bees make honey."}\n']
    (tmp_path / "passages.jsonl").write_text("".join(lines), encoding="utf-8")
    monkeypatch.setattr(bundled, "ENCYCLOPEDIA", tmp_path)
    assert ask("what do bees make").answers[0].text == "honey"
    monkeypatch.setattr(bundled, "ENCYCLOPEDIA", tmp_path / "nowhere")
    with pytest.raises(FormatError, match="is missing"):
        ask("what do bees make")


def test_only_one_thing_is_asked(docs: Path) -> None:
    with pytest.raises(ConfigError, match="not both"):
        ask("why?", docs=docs, index=docs)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_start_reads_the_record_of_the_model_once() -> None:
    """An audit hook counts how often Python opens each file."""
    code = """
import collections, sys
opened = collections.Counter()
sys.addaudithook(lambda event, args: opened.update([str(args[0])]) if event == "open" else None)
import jpr
jpr.open_pipeline(candidates=20, device="cpu").ask("Who plays Mark on Roseanne?")
print(sum(n for path, n in opened.items() if path.endswith("joint.json")))
"""
    assert run_python(code).split() == ["1"]


def test_a_question_loads_no_parser_of_data_sets_nor_dask() -> None:
    code = """
import sys, jpr
jpr.open_pipeline(candidates=20, device="cpu").ask("Who plays Mark on Roseanne?")
parsers = [name for name in sys.modules if name.startswith(("jpr.formats.questions.", "jpr.train"))]
heavy = [name for name in ("dask", "distributed", "torch") if name in sys.modules]
print(*parsers, *heavy)
"""
    assert run_python(code).split() == []
