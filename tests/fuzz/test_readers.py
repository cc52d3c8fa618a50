"""Whatever is in a file, it is read or refused in a sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.formats.corpus import read_passages
from jpr.formats.questions import load_questions
from jpr.formats.runs import load_rankings
from jpr.formats.runs.predictions import load_predictions
from jpr.formats.runs.trec import load_qrels
from tests.formats.corpus.test_corpus_formats import SAMPLES as PASSAGES
from tests.formats.questions.sample import Sample
from tests.formats.questions.samples import SAMPLES as QUESTIONS
from tests.formats.runs.test_run_damage import SAMPLES as RUNS

from .hostile import explained, fuzzing, of_text

Read = Callable[[Path, str | None], object]
ANSWERS = ("answers", "nq", "ambigqa")
QRELS = "q1 1 p1 1\nq1 2 p2 0\nq2 1 p1 -1\n"
TREC = "q1 Q0 p1 1 2.5 tag\nq1 Q0 p2 2 1e-3 tag\nq2 Q0 p1 1 -1 tag\n"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def tried(read: Read, path: Path, format: str, data: st.DataObject, text: str) -> None:
    path.write_bytes(data.draw(of_text(text)))
    explained(lambda file: read(file, format), path)
    explained(lambda file: read(file, None), path)


@pytest.mark.parametrize("sample", QUESTIONS, ids=lambda sample: sample.name)
@given(data=st.data())
@fuzzing
def test_questions(folder: Path, sample: Sample, data: st.DataObject) -> None:
    tried(load_questions, folder / sample.name, sample.format, data, sample.text)


@pytest.mark.parametrize("format", PASSAGES)
@given(data=st.data())
@fuzzing
def test_passages(folder: Path, format: str, data: st.DataObject) -> None:
    def read(path: Path, name: str | None) -> object:
        return list(read_passages(path, name))

    tried(read, folder / "passages", format, data, PASSAGES[format])


@pytest.mark.parametrize("format", [*RUNS, "trec"])
@given(data=st.data())
@fuzzing
def test_runs_and_answers(folder: Path, format: str, data: st.DataObject) -> None:
    text = TREC if format == "trec" else json.dumps(RUNS[format])
    read: Read = load_predictions if format in ANSWERS else load_rankings
    tried(read, folder / "run", format, data, text)


@given(data=st.data())
@fuzzing
def test_judgements(folder: Path, data: st.DataObject) -> None:
    tried(lambda path, _: load_qrels(path), folder / "qrels", "", data, QRELS)
