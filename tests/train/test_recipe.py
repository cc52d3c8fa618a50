import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from jpr.errors import ConfigError
from jpr.io.settings import apply_changes, parse_table
from jpr.train.recipe import JointTraining, read_recipe, upgrade_settings

RECIPE = Path(__file__).parents[2] / "recipes" / "joint.toml"
LEAST: dict[str, Any] = {
    "loop": {"steps": 10},
    "model": {"weights": "models/minilm"},
    "data": [{"pack": "packs/train"}],
}


def problem_of(given: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        parse_table(JointTraining, given, "r.toml")
    return str(error.value)


def test_the_example_is_a_recipe() -> None:
    recipe = read_recipe(RECIPE)
    assert isinstance(recipe, JointTraining)
    assert recipe.k == 5
    assert recipe.data[0].pack == "packs/train"


def test_what_is_not_said_has_a_default() -> None:
    recipe = parse_table(JointTraining, LEAST, "r.toml")
    assert recipe == JointTraining(recipe.loop, recipe.model, recipe.data)
    assert recipe.objective.kind == "joint"


def test_all_mistakes_are_named_at_once() -> None:
    wrong = {
        "loop": {"stepz": 10, "decay": "steep"},
        "model": {"weights": "a", "init": "b", "dropout": 1},
        "data": [{"pack": 3, "weight": -1.0}],
        "objective": {"kind": "joined", "gamma": -1},
        "batch": "many",
        "speed": 9,
    }
    message = problem_of(wrong)
    for part in (
        "r.toml: ",
        "loop.stepz; did you mean steps?",
        "loop.steps is missing",
        "model.weights",
        "model.dropout = 1.0",
        "data.pack = 3",
        "objective.kind = 'joined'",
        "joint, independent, pointwise",
        "objective.gamma = -1.0",
        "batch = 'many'",
        "unknown key speed",
    ):
        assert part in message
    assert "\n" not in message


MISTAKES = {
    "candidates=5": "candidates = 5",
    "random_negatives=1.5": "random_negatives = 1.5",
    "data=[]": "[[data]]",
    "data.weight=0.0": "data.weight = 0.0",
    "data=3": "data must be a list",
    "loop=3": "loop must be a table",
    "objective.teacher_weight=0.5": "objective.teacher and teacher_weight",
    "objective.teacher=models/a": "objective.teacher and teacher_weight",
    "model.head=index": "model.head = 'index'",
    "objective.answer_weight=-0.5": "objective.answer_weight = -0.5",
    "dev.decoder=best": "dev.decoder = 'best'",
    "dev.select=some": "dev.select = 'some'",
    "dev.packs=['a/dev', 'b/dev']": "dev.packs",
    "loop.ema_decay=1.0": "loop.ema_decay = 1.0",
    "k=true": "k = True",
    "negative=0.3": "unknown key negative",
}


def test_a_mistake_is_named() -> None:
    found = {change: problem_of(apply_changes(LEAST, [change])) for change in MISTAKES}
    assert {change: text for change, text in found.items() if MISTAKES[change] not in text} == {}


def test_a_run_of_an_earlier_version_is_known_by_the_new_names() -> None:
    recipe = asdict(parse_table(JointTraining, LEAST, "r.toml"))
    loop, model, objective = recipe["loop"], recipe["model"], recipe["objective"]
    loop["average"], loop["micros"] = loop.pop("ema_decay"), loop.pop("micro_batches")
    loop["clip"], loop["patience"] = loop.pop("max_grad_norm"), loop.pop("early_stopping")
    model["numbers"] = model.pop("index_tokens")
    model["numbers_anew"] = model.pop("reset_index_tokens")
    objective.pop("normalize")
    objective["normalise"], recipe["strangers"] = "each", recipe.pop("random_negatives")
    upgraded = json.loads(upgrade_settings(json.dumps(recipe, indent=1)))
    assert upgraded == json.loads(json.dumps(asdict(parse_table(JointTraining, LEAST, "r.toml"))))


def test_settings_can_be_changed() -> None:
    changes = ["loop.steps=7", "objective.gamma = 1.5", "data.pack=packs/b", "dev.packs=['c', 'd']"]
    recipe = parse_table(JointTraining, apply_changes(LEAST, changes), "r.toml")
    assert recipe.loop.steps == 7
    assert recipe.objective.gamma == 1.5
    assert recipe.data[0].pack == "packs/b"
    assert recipe.dev.packs == ("c", "d")
    assert LEAST["loop"] == {"steps": 10}


@pytest.mark.parametrize("change", ["loop.steps", "loop.steps.more=1"])
def test_a_change_that_cannot_be_made_is_refused(change: str) -> None:
    with pytest.raises(ConfigError, match=r"--set loop\.steps"):
        apply_changes(LEAST, [change])


def test_with_several_packs_it_must_be_said_which() -> None:
    two = {**LEAST, "data": [{"pack": "a"}, {"pack": "b"}]}
    with pytest.raises(ConfigError, match="data is not a single"):
        apply_changes(two, ["data.weight=2.0"])


def test_files_that_are_no_recipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: .*No such file"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("k = = 3")
    with pytest.raises(ConfigError, match="not a TOML"):
        read_recipe(tmp_path / "bad.toml")


def test_every_setting_is_documented() -> None:
    page = (RECIPE.parents[1] / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    page = page[: page.index("## A reader")]
    missing = []
    for name, kind in get_type_hints(JointTraining).items():
        inner = get_args(kind)[0] if get_args(kind) else kind
        keys = [one.name for one in fields(inner)] if is_dataclass(inner) else [name]
        table = page.partition(f"[{name}]")[2] if is_dataclass(inner) else page
        missing += [f"{name}.{key}" for key in keys if f"| `{key}` |" not in table]
    assert missing == []
