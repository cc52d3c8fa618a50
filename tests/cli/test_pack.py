"""`jpr pack`, from the command line to the folder."""

import filecmp
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import jpr.retrieve.retrievers
import jpr.train.packing
from jpr.cli import app
from jpr.formats.questions import load_questions
from jpr.retrieve.retrievers import KeyedRetriever, open_retriever
from jpr.train.pack import Pack
from jpr.types import Question, Ranking
from tests.cli.running import EXAMPLE, fails
from tests.cli.running import jpr as run_jpr
from tests.rerank.tiny import tokenizer

CORPUS = "id\ttext\ttitle\n7\tgrey\tgold\n8\tred blue\tgold\n9\tlime\t\n"
TREC = "a Q0 8 1 2.5 x\na Q0 7 2 1.5 x\nb Q0 7 1 1 x\nelse Q0 7 1 1 x\n"
QUESTIONS = [
    {"id": "a", "question": "which red", "answers": [["red"], ["blue"]]},
    {"id": "missing", "question": "which lime", "answers": [["lime"]]},
    {"id": "b", "question": "which grey", "answers": [["grey"]]},
    {"id": "none", "question": "which ?", "answers": []},
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("corpus.tsv").write_text(CORPUS)
    Path("run.trec").write_text(TREC)
    Path("q.jsonl").write_text("".join(f"{json.dumps(question)}\n" for question in QUESTIONS))
    Path("tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    return tmp_path


COMMON = ("--tokenizer", "tokenizer.json", "--out", "pack")


def test_a_run_of_ids_gets_its_texts_and_what_is_odd_is_reported(files: Path) -> None:
    arguments = ["pack", "run.trec", "-q", "q.jsonl", "--corpus", "corpus.tsv", *COMMON]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "q.jsonl: left out 1 question without answers" in result.stderr
    assert "run.trec: left out 1 ranking for other questions" in result.stderr
    assert "run.trec: 1 question without ranking" in result.stderr
    assert "wrote 3 questions with 3 candidates and 2 passages to pack" in result.stderr
    pack = Pack.open("pack", verify=True)
    assert pack.question_ids == ("a", "b", "missing")  # as in the run, then what it lacks
    assert pack.candidate_starts.tolist() == [0, 2, 3, 3]
    assert pack.cover_edges.tolist() == [0, 0, 2]
    assert pack.cover_answers.tolist() == [0, 1, 0]
    assert pack.about["sources"] == ["q"]
    assert list(pack.about["inputs"]) == [
        "questions 1: q.jsonl",
        "run 1: run.trec",
        "corpus 1: corpus.tsv",
    ]


def test_each_run_has_its_questions_and_the_order_counts(files: Path) -> None:
    example = EXAMPLE / "questions.jsonl"
    runs = [EXAMPLE / "independent.jsonl", EXAMPLE / "joint.jsonl"]
    Path("again.jsonl").write_bytes(example.read_bytes())
    run_jpr("pack", *runs, "-q", example, "-q", "again.jsonl", *COMMON, "-k", 3)
    pack = Pack.open("pack")
    asked = len(load_questions(example))
    assert pack.sources.tolist() == [0] * asked + [1] * asked
    assert pack.about["sources"] == ["questions", "again"]
    assert pack.candidate_starts.tolist() == [3 * i for i in range(2 * asked + 1)]


class Interrupted:
    """A retriever that is killed after some questions."""

    def __init__(self, inner: KeyedRetriever, after: int) -> None:
        self._inner, self._after, self.key = inner, after, inner.key
        self.asked: list[str] = []

    def retrieve(self, question: Question, k: int) -> Ranking:
        return self._inner.retrieve(question, k)

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        for question in questions:
            if len(self.asked) == self._after:
                raise KeyboardInterrupt
            self.asked.append(question.id)
            yield self.retrieve(question, k)


def test_an_index_is_searched_and_a_killed_search_resumes(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_jpr("index", "corpus.tsv", "--out", "index", "--encoder", "none")
    command = ["pack", "--index", "index", "-q", "q.jsonl", "--tokenizer", "tokenizer.json"]
    run_jpr(*command, "--out", "whole")
    pack = Pack.open("whole")
    assert pack.question_ids == ("a", "missing", "b")
    assert pack.candidate_starts.tolist() == [0, 1, 2, 3]  # each has one passage with its word
    assert pack.cover_answers.tolist() == [0, 1, 0, 0]
    opened = open_retriever("index")
    assert pack.about["inputs"]["retriever"] == opened.key
    monkeypatch.setattr(jpr.train.packing, "_BATCH", 1)
    for after, asked in ((2, ["a", "missing"]), (9, ["b"])):
        killed = Interrupted(opened, after)
        monkeypatch.setattr(jpr.retrieve.retrievers, "open_retriever", lambda _, k=killed: k)
        CliRunner().invoke(app, [*command, "--out", "pack"])
        assert Path("pack").exists() == (after == 9)
        assert killed.asked == asked
    names = [path.name for path in Path("whole").iterdir()]
    assert filecmp.cmpfiles("whole", "pack", names, shallow=False) == (names, [], [])


def test_what_does_not_go_together_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*arguments: object) -> str:
        return fails(capsys, monkeypatch, "pack", *arguments, *COMMON)

    one = ("-q", "q.jsonl")
    Path("all.jsonl").write_text(f"{json.dumps(QUESTIONS[0])}\n")
    known = ("-q", "all.jsonl")
    assert "0 runs for 1 files of questions" in said(*one)
    assert "remove the runs and --corpus" in said("run.trec", *one, "--index", "x")
    assert "given twice" in said("run.trec", "run.trec", *one, *one)
    assert "-k 0: " in said("run.trec", *one, "-k", 0)
    Path("ids.trec").write_text("a Q0 8 1 2.5 x\n")
    assert "passages for question 'a' are only ids" in said("ids.trec", *known)
    Path("bad.trec").write_text("zz Q0 8 1 2.5 x\n")
    assert "bad.trec: no ranking belongs to any question" in said("bad.trec", *known)
    Path("small.tsv").write_text("id\ttext\ttitle\n9\tlime\t\n")
    absent = said("ids.trec", *known, "--corpus", "small.tsv")
    assert "1 of 1 passages of the run are not in the corpus, e.g. '8'" in absent
    Path("empty.jsonl").write_text('{"id": "e", "question": " ", "answers": [["red"]]}\n')
    assert "question 'e' has no text to search for" in said("-q", "empty.jsonl", "--index", "x")
    Path("pack").mkdir()
    Path("pack/notes.txt").write_text("mine")
    refused = said("ids.trec", *known, "--corpus", "corpus.tsv")
    assert "pack: exists and is not a pack" in refused
    assert not Path(".pack.new").exists()
