"""The joint model that comes with the package, on the example, which this project wrote."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from jpr import JointReranker, MRecall, evaluate, load_questions, load_rankings
from jpr.cli import main
from jpr.rerank.joint import BUNDLED_MODEL
from jpr.rerank.onnx_scorer import EXACT_CANDIDATES
from jpr.rerank.torch_scorer import TorchScorer
from jpr.types import Ranking, Reply
from tests.cli.running import EXAMPLE, jpr

RUN, QUESTIONS = EXAMPLE / "independent.jsonl", EXAMPLE / "questions.jsonl"
MB = 1e6


@cache
def bundled() -> JointReranker:
    return JointReranker.load(device="cpu", threads=1)


@cache
def chosen() -> list[Reply]:
    return list(bundled().decode_many(load_rankings(RUN), 5))


def test_it_covers_more_answers_than_the_order_it_is_given() -> None:
    questions = load_questions(QUESTIONS)
    runs = {"given": list(load_rankings(RUN)), "joint": [choice.ranking for choice in chosen()]}
    scored = evaluate(questions, runs, [MRecall @ 5, MRecall @ 3])
    given, joint = (
        [score.value for score in scored.scores(scored.run(name))] for name in ("given", "joint")
    )
    assert all(more > less for more, less in zip(joint, given, strict=True))


def test_both_actors_of_mark_are_in_its_first_two_passages_on_roseanne() -> None:
    choice = next(one for one in chosen() if one.ranking.question.id == "mark-on-roseanne")
    added = [node.expected[0].text for node in choice.nodes[:2]]
    assert sorted(added) == ["Ames McNamara", "Glenn Quinn"]
    for node, hit in zip(choice.nodes, choice.ranking.hits, strict=True):
        for answer in node.expected:
            assert [hit.passage.text[a:b] for a, b in answer.spans] == [answer.text] * len(
                answer.spans
            )


def test_auto_gives_the_two_actors_of_mark_fewer_passages_than_others() -> None:
    rankings = list(load_rankings(RUN))[:2]
    sizes = [len(ranking.hits) for ranking in bundled().rank_many(rankings, "auto")]
    assert 2 <= sizes[0] < sizes[1] <= bundled().max_k


def test_with_more_than_a_few_candidates_rounding_changes_little() -> None:
    one, *others = load_rankings(RUN)
    every = Ranking(one.question, (*one.hits, *(hit for r in others[:2] for hit in r.hits)))
    assert len(every.hits) > 2 * EXACT_CANDIDATES  # most are read by whole numbers alone
    rounded = bundled().rank(one.question, every.hits, 5)
    in_torch = bundled().with_scorer(TorchScorer.load(BUNDLED_MODEL, {}, "cpu"))
    exact = in_torch.rank(one.question, every.hits, 5)
    ids = [[hit.passage.id for hit in ranking.hits] for ranking in (rounded, exact)]
    assert ids[0][:2] == ids[1][:2]
    assert len(set(ids[0]) & set(ids[1])) >= 3


def test_the_command_takes_it_where_no_model_is_named(tmp_path: Path) -> None:
    run, out = tmp_path / "run.jsonl", tmp_path / "out.jsonl"
    run.write_text(RUN.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    jpr("rerank", run, "--out", out, "-k", 2)
    (line,) = out.read_text(encoding="utf-8").splitlines()
    first = chosen()[0].ranking
    assert [c["id"] for c in json.loads(line)["ctxs"]] == [h.passage.id for h in first.hits[:2]]


def test_a_budget_in_which_nothing_fits_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = tmp_path / "run.jsonl", tmp_path / "out.jsonl"
    run.write_text(RUN.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    for budget, note in (("5", "no passage"), ("300", "")):
        out.unlink(missing_ok=True)
        monkeypatch.setattr(
            sys, "argv", ["jpr", "rerank", str(run), "--out", str(out), "--set", f"budget={budget}"]
        )
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr().err
        assert not stop.value.code
        assert (note in said) if note else ("no passage" not in said)


def test_it_runs_without_torch_and_is_small() -> None:
    code = "import sys, jpr; jpr.JointReranker.load(device='cpu'); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.iterdir())
        for folder in BUNDLED_MODEL.parent.iterdir()
        if folder.is_dir()
    }
    assert sizes["joint"] < 45 * MB
    assert sum(sizes.values()) < 100 * MB
