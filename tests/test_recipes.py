import runpy
from pathlib import Path
from typing import Any

import pytest

from jpr.errors import DataError
from jpr.train.recipe import JointTraining
from jpr.types import Hit, Passage, Question, Ranking

RECIPES = Path(__file__).parents[1] / "recipes"


def test_the_second_stage_begins_with_the_first_of_the_same_folder(tmp_path: Path) -> None:
    made: dict[str, Any] = runpy.run_path(str(RECIPES / "joint_models.py"))
    begun: list[str] = []

    def note(config: JointTraining, out: Path, **_: object) -> None:
        begun.append(config.model.init)

    made["trained"].__globals__["train_joint"] = note
    for name in ("first", "joint-0"):
        made["trained"](name, tmp_path / name, "cpu", steps=1)
    assert begun == ["", str(tmp_path / "first")]


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
    ((_, chosen),) = made["runs_of"](rankings, choices, {"joint": ("joint-0", "sequence")}, "dev")
    found = {one.question.id: [hit.passage.id for hit in one.hits] for one in chosen}
    assert found == {"a": ["z", "x"], "c": ["y"]}
    made_by["questions"]["dev"] = ["a", "b"]
    with pytest.raises(DataError, match="other questions of dev"):
        list(made["runs_of"](rankings, choices, {"joint": ("joint-0", "sequence")}, "dev"))
