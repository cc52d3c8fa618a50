import runpy
from pathlib import Path
from typing import Any

import pytest

from jpr.errors import DataError
from jpr.train.recipe import JointTraining, read_recipe
from jpr.train.state import Progress
from jpr.types import Hit, Passage, Question, Ranking

RECIPES = Path(__file__).parents[1] / "recipes"


def test_the_second_stage_begins_with_the_first_of_the_same_folder(tmp_path: Path) -> None:
    made: dict[str, Any] = runpy.run_path(str(RECIPES / "joint_models.py"))
    begun: list[str] = []

    def note(config: JointTraining, out: Path, **_: object) -> Progress:
        begun.append(config.model.init)
        return Progress(step=1, seconds=2.5)

    made["trained"].__globals__["train_joint"] = note
    for name in ("first", "joint-0"):
        assert made["trained"](name, tmp_path / name, "cpu", steps=1) == 2.5
    assert begun == ["", str(tmp_path / "first")]


def test_every_model_has_a_recipe_that_can_be_read() -> None:
    made: dict[str, Any] = runpy.run_path(str(RECIPES / "joint_models.py"))
    named = {run.recipe for run in made["RUNS"].values()}
    assert named == {file.stem for file in (RECIPES / "joint").glob("*.toml")}
    for name in named:
        begins = Path(read_recipe(RECIPES / "joint" / f"{name}.toml").model.init).name
        assert not begins or begins in made["RUNS"]


def test_a_model_that_is_there_is_taken_if_it_has_the_steps_of_its_recipe(tmp_path: Path) -> None:
    made: dict[str, Any] = runpy.run_path(str(RECIPES / "joint_models.py"))
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "log.jsonl").write_text('{"step": 7, "seconds": 3.5}\n', encoding="utf-8")
    assert made["trained"]("first", tmp_path, "cpu", steps=7) == 3.5
    with pytest.raises(SystemExit, match="trained for 7 steps, not 6000; remove it"):
        made["trained"]("first", tmp_path, "cpu", steps=0)


def test_choices_are_for_the_questions_of_a_pack_which_have_answers() -> None:
    made: dict[str, Any] = runpy.run_path(str(RECIPES / "joint_table.py"))
    questions = [
        Question("a", "who?", (("Ida",),)),
        Question("b", "why?"),
        Question("c", "when?", regex="19.."),
    ]
    hits = tuple(Hit(Passage(id, "", id), 0.0) for id in "xyz")
    rankings = made["answerable"](questions, [Ranking(question, hits) for question in questions])
    made_by: dict[str, Any] = {
        "questions": {"dev": ["a", "c"]},
        "choices": {"dev": {"sequence": [[2, 0], [1]]}},
    }
    choices = {"joint-0": made_by}
    ((_, chosen),) = made["runs_of"](rankings, choices, "dev")
    found = {one.question.id: [hit.passage.id for hit in one.hits] for one in chosen}
    assert found == {"a": ["z", "x"], "c": ["y"]}
    made_by["questions"]["dev"] = ["a", "b"]
    with pytest.raises(DataError, match="other questions of dev"):
        list(made["runs_of"](rankings, choices, "dev"))
