"""`jpr rerank`, from the command line to the files."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jpr.batch import rerank_to_file
from jpr.decode.search import Limits
from jpr.decode.tree import tree
from jpr.encode.encoder_folder import load_encoder
from jpr.formats.questions import load_questions
from jpr.formats.replies import tree_line
from jpr.formats.runs import load_rankings
from jpr.rerank.diversify import DiverseReranker, Mmr, Pyversity
from jpr.rerank.oracle import OracleReranker
from jpr.rerank.order import FirstStageOrder, ranked
from jpr.stages import Reranker
from jpr.types import ExpectedAnswer, Hit, Node, Passage, Prefix, Question, Ranking, Reply
from tests.cli.running import EXAMPLE, fails, jpr
from tests.decode.alone import decode
from tests.encode.tiny import write_encoder

RUN = EXAMPLE / "independent.jsonl"
QUESTIONS = EXAMPLE / "questions.jsonl"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def test_each_method_writes_what_python_chooses(tmp_path: Path, encoder: Path) -> None:
    loaded = load_encoder(encoder)
    expected: dict[str, Reranker] = {
        "first-stage": FirstStageOrder(),
        "oracle": OracleReranker(),
        "mmr": DiverseReranker(loaded, Mmr(0.7)),
        "dpp": DiverseReranker(loaded, Pyversity("dpp", 0.7)),
    }
    rankings = load_rankings(RUN)
    for method, reranker in expected.items():
        out = tmp_path / f"{method}.jsonl"
        diverse = ["--set", "lambda=0.7", "--set", f"encoder={encoder}"]
        options = diverse if method in ("mmr", "dpp") else []
        jpr("rerank", RUN, "--out", out, "-k", 3, "--method", method, "-q", QUESTIONS, *options)
        found = load_rankings(out)
        questions = load_questions(QUESTIONS)
        asked = [Ranking(q, r.hits) for q, r in zip(questions, rankings, strict=True)]
        assert found == list(reranker.rank_many(asked, 3))


def test_the_oracle_is_the_best_order_of_the_judge(tmp_path: Path) -> None:
    out = tmp_path / "best.jsonl"
    jpr("rerank", RUN, "--out", out, "--method", "oracle", "-q", QUESTIONS)
    scored = jpr("evaluate", RUN, out, "-q", QUESTIONS, "-m", "MRecall@5", "--json")
    first, best = json.loads(scored)["runs"]
    assert best["measures"]["MRecall@5"]["all"] == first["measures"]["MRecall@5"]["best_order"]


def test_a_run_of_ids_gets_its_texts_and_questions(tmp_path: Path) -> None:
    run, corpus, questions = (tmp_path / name for name in ("run.trec", "corpus.tsv", "q.jsonl"))
    run.write_text("a Q0 7 1 2.5 x\na Q0 8 2 1.5 x\n")
    corpus.write_text("id\ttext\ttitle\n7\tgrey\tTitle\n8\tred and blue\tTitle\n")
    questions.write_text('{"id": "a", "question": "first?", "answers": [["red"]]}\n')
    out = tmp_path / "out.jsonl"
    jpr(
        "rerank", run, "-o", out, "--method", "oracle", "-k", 1, "-q", questions, "--corpus", corpus
    )
    (ranking,) = load_rankings(out)
    assert [hit.passage for hit in ranking.hits] == [Passage("8", "Title", "red and blue")]
    jpr("rerank", run, "-o", out, "--method", "first-stage", "-k", 1)
    assert [hit.passage.id for hit in load_rankings(out)[0].hits] == ["7"]


def test_what_cannot_be_done_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"

    def said(run: Path, *options: object) -> str:
        return fails(capsys, monkeypatch, "rerank", run, "--out", out, *options)

    assert "choose one of joint, pointwise, mmr, dpp" in said(RUN, "--method", "magic")
    assert "tree, sets, seq, beam, independent" in said(RUN, "--set", "decoder=bush")
    assert "-k 0" in said(RUN, "-k", 0)
    assert "--trees: " in said(RUN, "--method", "mmr", "--trees", tmp_path / "t")
    assert "unknown key lambda" in said(RUN, "--method", "oracle", "--set", "lambda=1")
    assert "seq" in said(RUN, "--set", "decoder=seq", "--set", "beta=1")
    assert "nan" in said(RUN, "--set", "beta=nan")
    assert "between 0 (diversity) and 1" in said(RUN, "--method", "mmr", "--set", "lambda=2")

    run = tmp_path / "run.jsonl"
    ctxs = [{"id": "7", "title": "", "text": "red", "score": 1.0}]
    run.write_text(json.dumps({"id": "a", "question": "first?", "ctxs": ctxs * 2}))
    assert f"{run}: question 'a': passage '7' comes 2 times" in said(run, "--method", "first-stage")
    run.write_text(json.dumps({"id": "a", "question": "first?", "ctxs": ctxs}))
    assert f"{run}: question 'a' has no answers" in said(run, "--method", "oracle")
    run.write_text("a Q0 7 1 2.5 x\n")
    assert "question 'a' has no text; give the questions" in said(run, "--method", "mmr")
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "a", "question": "first?", "answers": [["red"]]}\n')
    ids_only = said(run, "--method", "mmr", "-q", questions)
    assert "1 of 1 passages of question 'a' have no text; give the texts" in ids_only
    assert not out.exists()


def rows(n: int, prefixes: Sequence[Prefix]) -> list[NDArray[np.floating]]:
    return [-np.arange(1.0, n + 1) for _ in prefixes]


class ToyJoint:
    """Decodes a tree over made-up probabilities; stops after some questions, if asked to."""

    key = "toy"

    def __init__(self, stop_after: float = inf) -> None:
        self.left = stop_after

    def rank(self, question: Question, candidates: Sequence[Hit], k: int) -> Ranking:
        return next(self.rank_many([Ranking(question, tuple(candidates))], k))

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        return (choice.ranking for choice in self.decode_many(rankings, k))

    def decode_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Reply]:
        for ranking in rankings:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            n = len(ranking.hits)
            decoded = decode(tree(n, Limits(k)), partial(rows, n))
            new = [(node.passage, node.score) for node in decoded if node.is_new]
            found = ranked(ranking.question, ranking.hits, new)
            yield Reply((), found, ranking, decoded)


def test_trees_are_written_beside_rankings_and_survive_a_kill(tmp_path: Path) -> None:
    rankings = load_rankings(RUN)
    out, trees = tmp_path / "run.jsonl", tmp_path / "trees.jsonl"
    rerank_to_file(ToyJoint(), rankings, tmp_path / "a.jsonl", 3, trees=tmp_path / "b.jsonl")
    with pytest.raises(KeyboardInterrupt):
        rerank_to_file(ToyJoint(stop_after=4), rankings, out, 3, trees=trees)
    part = tmp_path / ".trees.jsonl.part"
    part.write_bytes(part.read_bytes()[:-9])
    rest = ToyJoint(stop_after=len(rankings) - 3)
    rerank_to_file(rest, rankings, out, 3, trees=trees)
    assert rest.left == 0
    assert out.read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    assert trees.read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    records = [json.loads(line) for line in trees.read_text(encoding="utf-8").splitlines()]
    for ranking, record in zip(load_rankings(out), records, strict=True):
        new = [node["passage"] for node in record["nodes"] if node["is_new"]]
        assert new == [hit.passage.id for hit in ranking.hits]


@pytest.mark.parametrize("change", ["k", "candidates", "answers"])
def test_what_is_left_of_another_run_is_not_used(tmp_path: Path, change: str) -> None:
    rankings, k, out = load_rankings(RUN), 3, tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        rerank_to_file(ToyJoint(stop_after=4), rankings, out, k)
    if change == "k":
        k = 4
    elif change == "candidates":
        rankings[0] = rankings[0].top(9)
    else:
        question = rankings[-1].question
        answered = Question(question.id, question.text, (("an answer",),))
        rankings[-1] = Ranking(answered, rankings[-1].hits)
    again = ToyJoint(stop_after=len(rankings))
    rerank_to_file(again, rankings, out, k)
    assert again.left == 0


def test_a_line_of_a_tree_names_passages_by_their_ids() -> None:
    hits = tuple(Hit(Passage(id, "", id), 0.0) for id in "xyz")
    expected = (ExpectedAnswer("Zed", 0.25, 0.125, ((0, 3),)),)
    nodes = (
        Node((), 2, -0.5, -0.5, True, (((), 0, -1.0),), expected=expected),
        Node((2,), 0, -inf, -inf, True),
    )
    given = Ranking(Question("q", "which?"), hits)
    line = tree_line(Reply((), given, given, nodes))
    assert json.loads(line) == {
        "id": "q",
        "question": "which?",
        "nodes": [
            {
                "passage": "z",
                "prefix": [],
                "score": -0.5,
                "depth": 1,
                "log_prob": -0.5,
                "is_new": True,
                "instead_of": [{"passage": "x", "prefix": [], "score": -1.0}],
                "adds": [
                    {"answer": "Zed", "probability": 0.25, "overall": 0.125, "spans": [[0, 3]]}
                ],
            },
            {
                "passage": "x",
                "prefix": ["z"],
                "score": None,
                "depth": 2,
                "log_prob": None,
                "is_new": True,
                "instead_of": [],
                "adds": [],
            },
        ],
    }
    assert line.endswith("\n")
