"""`jpr retrieve`, from the command line to the file."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from jpr.batch import retrieve_to_file
from jpr.encode.encoder_folder import load_encoder
from jpr.formats.questions import write_questions
from jpr.formats.runs import load_rankings
from jpr.retrieve.index import Index, build_index
from jpr.retrieve.retrievers import Bm25Retriever, open_retriever
from jpr.types import Passage, Question, Ranking
from tests.cli.running import fails, jpr
from tests.encode.tiny import write_encoder
from tests.retrieve.sample import PASSAGES

WORDS = ("castle", "bridge", "tower", "harbour", "market", "river", "old", "fish")
QUESTIONS = [Question(str(i), f"the {word}", ((word,),)) for i, word in enumerate(WORDS)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> Path:
    folder = tmp_path_factory.mktemp("index")
    build_index(
        PASSAGES, folder, source="x", encoder=load_encoder(encoder), encoder_folder=str(encoder)
    )
    return folder


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        write_questions(QUESTIONS, stream)
    return path


class Interrupted:
    """A retriever that stops after some questions, as a killed process would."""

    def __init__(self, retriever: Bm25Retriever, after: int) -> None:
        self.retriever, self.left, self.asked = retriever, after, 0

    def retrieve(self, question: Question, k: int) -> Ranking:
        self.asked += 1
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return self.retriever.retrieve(question, k)

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        return (self.retrieve(question, k) for question in questions)


def test_an_interrupted_run_resumes_where_it_was(tmp_path: Path, folder: Path) -> None:
    retriever = Bm25Retriever(Index(folder))
    retrieve_to_file(retriever, QUESTIONS, tmp_path / "whole.jsonl", 5, key="k")
    out, part = tmp_path / "run.jsonl", tmp_path / ".run.jsonl.part"
    with pytest.raises(KeyboardInterrupt):
        retrieve_to_file(Interrupted(retriever, 3), QUESTIONS, out, 5, key="k")
    assert not out.exists()
    part.write_bytes(part.read_bytes()[:-7])  # the third ranking is torn
    rest = Interrupted(retriever, 99)
    retrieve_to_file(rest, QUESTIONS, out, 5, key="k")
    assert rest.asked == len(QUESTIONS) - 2
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not part.exists()
    assert [r.question for r in load_rankings(out)] == QUESTIONS


@pytest.mark.parametrize("change", ["k", "key", "questions"])
def test_what_is_left_of_another_run_is_not_used(tmp_path: Path, folder: Path, change: str) -> None:
    retriever = Bm25Retriever(Index(folder))
    out = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        retrieve_to_file(Interrupted(retriever, 3), QUESTIONS, out, 5, key="k")
    again = Interrupted(retriever, 99)
    asked = QUESTIONS[::-1] if change == "questions" else QUESTIONS
    k, key = (9 if change == "k" else 5), ("other" if change == "key" else "k")
    retrieve_to_file(again, asked, out, k, key=key)
    assert again.asked == len(QUESTIONS)


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
def test_search_prints_what_python_finds(folder: Path, encoder: Path, kind: str) -> None:
    out = json.loads(jpr("retrieve", folder, "the old castle", "-r", kind, "-k", 3, "--json"))
    opened = open_retriever(folder, kind)
    found = opened.retrieve(Question("", "the old castle"), 3)
    assert out == {
        "question": "the old castle",
        "hits": [
            {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
            for h in found.hits
        ],
    }
    again = jpr(
        "retrieve", folder, "the old castle", "-r", kind, "-k", 3, "--json", "--encoder", encoder
    )
    assert json.loads(again) == out


def test_search_is_hybrid_by_default_and_keeps_to_a_filter(folder: Path) -> None:
    plain, hybrid = (jpr("retrieve", folder, "castle", *kind) for kind in ((), ("-r", "hybrid")))
    assert plain == hybrid
    assert "Castle  [a 1]" in plain
    conditions = ["--where", "source=guide", "--where", "source=news", "--where", "title=Castle"]
    out = json.loads(jpr("retrieve", folder, "castle", *conditions, "--json"))
    assert [hit["id"] for hit in out["hits"]] == ["a 1"]


def test_near_identical_passages_are_left_out_on_request(tmp_path: Path) -> None:
    twins = [Passage("x", "Twin", PASSAGES[0].text.upper()), *PASSAGES]
    build_index(twins, tmp_path, source="x")
    found = [jpr("retrieve", tmp_path, "old castle", *option) for option in ((), ("--distinct",))]
    assert ["[x]" in out and "[a 1]" in out for out in found] == [True, False]


def test_retrieve_writes_a_ranking_for_each_question(
    tmp_path: Path, folder: Path, questions: Path
) -> None:
    runs = {}
    for kind in ("bm25", "dense", "hybrid"):
        out = tmp_path / f"{kind}.jsonl"
        jpr("retrieve", folder, "-q", questions, "-o", out, "-k", 2, "-r", kind)
        runs[kind] = load_rankings(out)
        assert [ranking.question for ranking in runs[kind]] == QUESTIONS
    assert [h.passage.id for h in runs["bm25"][0].hits] == ["a 1", "c"]
    assert all(len(ranking.hits) == 2 for ranking in runs["dense"])


def test_options_without_meaning_are_refused(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def error_of(*options: object) -> str:
        return fails(capsys, monkeypatch, "retrieve", folder, "castle", *options)

    assert "choose one of bm25, dense, hybrid" in error_of("--retriever", "colbert")
    assert "-k 0" in error_of("-k", 0)
    assert "write field=value" in error_of("--where", "guide")
    assert "no passage has a field 'colour'" in error_of("--where", "colour=red")
    assert "nothing: " in error_of("--encoder", tmp_path / "nothing")
