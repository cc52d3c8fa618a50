import json
from dataclasses import replace
from pathlib import Path

import pytest

from jpr.coverage import Coverage
from jpr.errors import ConfigError, DataError, FormatError
from jpr.formats.runs import write_rankings
from jpr.rerank.decoding import (
    StoppingRule,
    calibrate,
    write_stopping_rule,
)
from jpr.rerank.joint import JointReranker
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.types import Node, Question, Ranking
from tests.cli.running import fails, jpr
from tests.damage import without_sums
from tests.rerank.tiny import NAMES, QUESTION, hits, tokenizer, write_pointer

STOP = StoppingRule(-2.5, 4, "tree", 2.0, 0.95, 1.5, 10)


def rule_of(folder: Path) -> StoppingRule | None:
    return JointReranker.load(folder)._stopping


def chain(*scores: float) -> tuple[Node, ...]:
    """Passages 0, 1, 2 … one after the other, with these scores."""
    return tuple(
        Node(tuple(range(i)), i, score, score, True, worth=score) for i, score in enumerate(scores)
    )


def test_the_highest_threshold_that_keeps_enough_answers() -> None:
    # The first question has an answer in each of its first two passages, the second in its first.
    coverage = Coverage.of_lists([2, 1], [[(0,), (1,), ()], [(0,), (0,), ()]])
    trees = [chain(-1.0, -2.0, -3.0), chain(-1.5, -4.0, -5.0)]
    assert calibrate(trees, coverage, keep=1.0) == (-2.0, 1.0, 1.5)
    assert calibrate(trees, coverage, keep=0.6) == (-1.5, 2 / 3, 1.0)
    assert calibrate(trees, coverage, keep=0.1) == (-1.0, 1 / 3, 0.5)


def test_what_follows_a_low_score_is_lost_even_if_it_scores_high() -> None:
    coverage = Coverage.of_lists([2], [[(0,), (), (1,)]])
    tree = chain(-1.0, -6.0, -0.5)
    threshold, kept, passages = calibrate([tree], coverage, keep=1.0)
    assert (threshold, kept, passages) == (-6.0, 1.0, 3.0)


@pytest.mark.parametrize("keep", [0.0, -1.0, 1.5])
def test_a_share_that_is_none_is_refused(keep: float) -> None:
    with pytest.raises(ConfigError, match="keep = "):
        calibrate([chain(-1.0)], Coverage.of_lists([1], [[(0,)]]), keep)


def test_without_any_answer_there_is_nothing_to_go_by() -> None:
    with pytest.raises(DataError, match="contains an answer"):
        calibrate([chain(-1.0)], Coverage.of_lists([1], [[()]]), 0.9)


def test_auto_stops_where_the_model_says(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path)
    whole = JointReranker.load(folder)
    (choice,) = whole.decode_many([Ranking(QUESTION, tuple(hits(NAMES)))], 6)
    scores = [node.score for node in choice.nodes]
    write_stopping_rule(folder / "joint.json", replace(STOP, threshold=scores[2], most=6))
    found = JointReranker.load(folder).rank(QUESTION, hits(NAMES), "auto")
    low = next((i for i, score in enumerate(scores) if score < scores[2]), len(scores))
    expected = [hit.passage.id for hit in whole.rank(QUESTION, hits(NAMES), 6).hits][:low]
    assert [hit.passage.id for hit in found.hits] == expected
    assert len(found.hits) >= 3


def test_a_model_that_reads_answers_stops_where_little_is_added(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path, answers=True)
    given = Ranking(QUESTION, tuple(hits(NAMES)))
    (whole,) = JointReranker.load(folder, "seq").decode_many([given], 6)
    worths = [node.worth for node in whole.nodes]
    assert len(worths) == 6
    for threshold in (sorted(worths)[3], 0.0):
        write_stopping_rule(
            folder / "joint.json", replace(STOP, threshold=threshold, most=6, decoder="seq")
        )
        (some,) = JointReranker.load(folder, "seq").decode_many([given], "auto")
        little = (i for i, worth in enumerate(worths) if worth < threshold and i)
        enough = next(little, 6)  # one passage at least
        assert some.nodes == whole.nodes[:enough]
        assert some.ranking.hits == whole.ranking.hits[:enough]


@pytest.mark.parametrize("damage", [{"threshold": "x"}, {"threshold": None}, {"most": "6"}])
def test_a_stop_of_another_kind_is_refused(tmp_path: Path, damage: dict[str, object]) -> None:
    folder = write_pointer(tmp_path)
    write_stopping_rule(folder / "joint.json", STOP)
    about = without_sums(folder / "joint.json")
    about["stop"] |= damage
    (folder / "joint.json").write_text(json.dumps(about))
    with pytest.raises(FormatError, match="its stop is not known"):
        rule_of(folder)


def test_what_auto_was_calibrated_for_can_be_asked_for(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path)
    write_stopping_rule(folder / "joint.json", replace(STOP, decoder="seq"))
    with pytest.raises(ConfigError, match="calibrated for decoder=seq"):
        JointReranker.load(folder, "tree").rank(QUESTION, hits(NAMES), "auto")
    assert JointReranker.load(folder, "seq").rank(QUESTION, hits(NAMES), "auto").hits


def test_auto_needs_a_calibrated_model_and_its_decoder(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path)
    with pytest.raises(ConfigError, match="was not calibrated"):
        JointReranker.load(folder).rank(QUESTION, hits(NAMES), "auto")
    write_stopping_rule(folder / "joint.json", STOP)
    assert rule_of(folder) == STOP
    with pytest.raises(ConfigError, match=r"calibrated for decoder=tree, beta=2\.0"):
        JointReranker.load(folder, beta=1.0).rank(QUESTION, hits(NAMES), "auto")
    for setting in ({"conditioning": "none"}, {"relevance": 0.5}, {"trust": 0.5}):
        with pytest.raises(ConfigError, match=next(iter(setting))):
            JointReranker.load(folder, **setting).rank(QUESTION, hits(NAMES), "auto")
    about = without_sums(folder / "joint.json")
    (folder / "joint.json").write_text(json.dumps({**about, "stop": {"when": 3}}))
    with pytest.raises(FormatError, match="stop is not known"):
        JointReranker.load(folder)


def test_calibrate_and_rerank_by_command(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path)
    run, out = tmp_path / "run.jsonl", tmp_path / "out.jsonl"
    asked = Question("q", QUESTION.text, (("red",), ("green",)))
    with run.open("w", encoding="utf-8") as stream:
        write_rankings([Ranking(asked, tuple(hits(NAMES)))], stream)
    jpr("export", folder, "--calibrate", run, "--set", "k=8", "--set", "keep=0.5")
    stop = rule_of(folder)
    assert stop is not None
    assert (stop.most, stop.questions) == (8, 1)
    jpr("rerank", run, "--model", folder, "--out", out, "-k", "auto")
    chosen = json.loads(out.read_text())["ctxs"]
    assert len(chosen) == stop.passages


Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("k", ["0", "-3", "two", "automatic", ""])
def test_a_k_that_is_none_is_refused(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch, k: str
) -> None:
    given = ("rerank", tmp_path / "run.jsonl", "--out", tmp_path / "o.jsonl", f"-k={k}")
    message = fails(capsys, monkeypatch, *given)
    assert "-k" in message
    assert k in message
    assert "auto" in message


def test_auto_is_for_the_joint_reranker(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    given = ("rerank", tmp_path / "run.jsonl", "--out", tmp_path / "o.jsonl", "-k", "auto")
    message = fails(capsys, monkeypatch, *given, "--method", "mmr")
    assert "-k auto" in message


def test_a_budget_of_tokens_instead_of_k_by_command(tmp_path: Path) -> None:
    folder, run, out = write_pointer(tmp_path), tmp_path / "run.jsonl", tmp_path / "out.jsonl"
    with run.open("w", encoding="utf-8") as stream:
        write_rankings([Ranking(QUESTION, tuple(hits(NAMES)))], stream)
    jpr("rerank", run, "--model", folder, "--out", out, "--set", "budget=50")
    texts = Prompts(tokenizer(), PromptSettings())
    lengths = [
        len(one.ids)
        for one in texts.build(QUESTION.text, [h.passage for h in hits(NAMES)], range(10))
    ]
    kept = json.loads(out.read_text())["ctxs"]
    spent = sum(lengths[NAMES.index(ctx["id"])] for ctx in kept)
    assert spent <= 50 < spent + min(lengths)
