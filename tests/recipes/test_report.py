import json
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.evaluation.evaluation import evaluate
from jpr.evaluation.measures import MRecall
from jpr.io.manifest import manifest
from jpr.types import Hit, Passage, Question, Ranking
from recipes.report import Record, load_records, records_of, results_page, save_records, summary

ROOT = Path(__file__).parents[2]


def results(folder: Path, answers: tuple[str, ...] = ("red", "blue")) -> Path:
    """A results folder with one recipe: one question, one of whose two answers is first."""
    question = Question("1", "?", tuple((answer,) for answer in answers))
    hits = tuple(Hit(Passage(t, "", t), -i) for i, t in enumerate(["red", "grey", "blue"]))
    evaluation = evaluate([question], {"BM25": [Ranking(question, hits)]}, [MRecall @ 2])
    made = manifest("python recipe.py", {"data": ROOT / "LICENSE"}, 1.5)
    records = records_of(evaluation, "colours", "three colours", "abc123")
    save_records(folder, "colours", records, {"about": "Colours.", **made})
    return folder


def test_records_hold_every_number_with_its_interval(tmp_path: Path) -> None:
    records = load_records(results(tmp_path))
    first, _, best, _ = records
    assert (first.system, first.measure, first.k, first.slice) == ("BM25", "MRecall", 2, "all")
    assert (first.value, first.n, first.commit) == (0.0, 1, "abc123")
    assert (best.system, best.value) == ("BM25, oracle", 100.0)


def test_the_page_is_made_from_the_records(tmp_path: Path) -> None:
    page = results_page(results(tmp_path))
    assert "## colours" in page
    assert "**three colours** (n = 1, several answers: 1)" in page
    assert "| BM25 | 0.0 / 0.0 (0.0–0.0) |" in page
    assert "python recipe.py" in page


def test_a_slice_without_questions_has_no_numbers(tmp_path: Path) -> None:
    folder = results(tmp_path, ("red",))
    assert {record.slice for record in load_records(folder)} == {"all"}
    page = results_page(folder)
    assert "**three colours** (n = 1, several answers: 0)" in page
    assert "| BM25 | 100.0 / – (100.0–100.0) |" in page


def test_the_page_shows_the_tests_that_a_manifest_names(tmp_path: Path) -> None:
    file = results(tmp_path) / "colours.manifest.json"
    numbers = {"difference": 1.5, "low": 0.5, "high": 2.5, "p_holm": 0.01}
    test = {"data": "d", "run": "a", "baseline": "b", "slice": "all", "order": "own", **numbers}
    tests = [{**test, "measure": f"MRecall@{k}"} for k in (5, 10)]
    shown = {"tests": tests, "shown": [["MRecall@5", "own", "all"]]}
    file.write_text(json.dumps({**json.loads(file.read_text()), **shown}))
    page = results_page(tmp_path)
    assert "| d | a – b | MRecall@5 | all | +1.5 (+0.5 to +2.5) | 0.01 |" in page
    assert "MRecall@10" not in page


def test_a_manifest_says_what_a_number_depends_on(tmp_path: Path) -> None:
    results(tmp_path)
    made = json.loads((tmp_path / "colours.manifest.json").read_text())
    assert set(made) == {"about", "command", "commit", "inputs", "machine", "seconds", "versions"}
    assert len(made["inputs"]["data"]) == 64
    assert made["versions"]["numpy"] != "absent"


def test_a_record_with_other_keys_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"value": 3}\n')
    with pytest.raises(FormatError, match=r"x\.jsonl:1: a record has the keys recipe"):
        load_records(tmp_path)


def test_systems_stand_between_the_first_stage_and_the_oracle(tmp_path: Path) -> None:
    values = {"first-stage": 40.0, "oracle": 80.0, "joint": 50.0}
    records = [
        Record("joint", system, "d", "MRecall", slice, 5, value - less, 0.0, 100.0, 9, "abc")
        for system, value in values.items()
        for slice, less in (("all", 0.0), ("multi", 10.0))
    ]
    made = manifest("python recipe.py", {}, 1.0)
    save_records(tmp_path, "joint", records, {"about": "", **made, "figures": {"d": "d.svg"}})
    page = results_page(tmp_path)
    assert "| joint | 50.0 / 40.0 (0.0–100.0) | 25.0 % |" in page  # 10 of 40 points
    assert "![d, by the number of answers](../results/d.svg)" in page
    *_, joint, oracle = summary(tmp_path).splitlines()
    assert (joint, oracle) == ("| joint | 50.0 / 40.0 |", "| oracle | 80.0 / 70.0 |")


def test_the_table_of_the_readme_is_up_to_date() -> None:
    assert summary(ROOT / "results") in (ROOT / "README.md").read_text()


def test_the_published_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "results.md").read_text() == results_page(ROOT / "results")
