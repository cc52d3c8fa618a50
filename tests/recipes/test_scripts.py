import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from jpr.errors import DataError
from jpr.models.bert import Bert
from jpr.models.config import BertConfig
from jpr.models.heads import PointerHead
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import read_joint, write_joint
from jpr.models.t5 import T5Decoder
from jpr.rerank.prompt import PromptSettings
from jpr.train.recipe import JointTraining, read_recipe
from jpr.train.state import RunProgress
from jpr.types import Hit, Passage, Question, Ranking
from recipes import extra_by_kind, half_layers, joint_models, joint_table
from recipes.rankings import answerable
from tests.models.joint_models import WORDS, D, t5_config

RECIPES = Path(__file__).parents[2] / "recipes"


def test_the_second_stage_starts_from_the_first_of_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initial: list[str] = []

    def note(config: JointTraining, out: Path, **_: object) -> RunProgress:
        initial.append(config.model.init)
        return RunProgress(step=1, seconds=2.5)

    monkeypatch.setattr(joint_models, "train_joint", note)
    for name in ("first", "joint-0"):
        assert joint_models.trained(name, tmp_path / name, "cpu", steps=1) == 2.5
    assert initial == ["", str(tmp_path / "first")]


def test_every_model_has_a_recipe_that_can_be_read() -> None:
    runs = [run for run in joint_models.RUNS.values() if run.recipe]
    files = {file.stem for file in (RECIPES / "joint").glob("*.toml")}
    assert {run.recipe for run in runs} == files
    for run in runs:
        read = read_recipe(RECIPES / "joint" / f"{run.recipe}.toml", run.changes)
        assert isinstance(read, JointTraining)
        begins = Path(read.model.init).name
        assert not begins or begins in {
            *joint_models.RUNS,
            "half",
        }  # that of recipes/half_layers.py


def test_an_existing_model_is_taken_if_it_has_the_steps_of_its_recipe(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "log.jsonl").write_text('{"step": 7, "seconds": 3.5}\n', encoding="utf-8")
    assert joint_models.trained("first", tmp_path, "cpu", steps=7) == 3.5
    with pytest.raises(SystemExit, match="trained for 7 steps, not 6000; remove it"):
        joint_models.trained("first", tmp_path, "cpu", steps=0)


def test_choices_are_for_the_questions_of_a_pack_which_have_answers() -> None:
    questions = [
        Question("a", "who?", (("Ida",),)),
        Question("b", "why?"),
        Question("c", "when?", regex="19.."),
    ]
    hits = tuple(Hit(Passage(id, "", id), 0.0) for id in "xyz")
    rankings = answerable(questions, [Ranking(question, hits) for question in questions])
    made_by: dict[str, Any] = {
        "questions": {"dev": ["a", "c"]},
        "choices": {"dev": {"sequence": [[2, 0], [1]]}},
    }
    choices = {"joint-0": made_by}
    ((_, chosen),) = joint_table.runs_of(rankings, choices, "dev")
    found = {one.question.id: [hit.passage.id for hit in one.hits] for one in chosen}
    assert found == {"a": ["z", "x"], "c": ["y"]}
    made_by["questions"]["dev"] = ["a", "b"]
    with pytest.raises(DataError, match="other questions of dev"):
        list(joint_table.runs_of(rankings, choices, "dev"))


def test_extra_questions_are_split_by_what_they_ask_for() -> None:
    sources = ["efficientqa", "irc_trivia", "mintaka", "red_trivia", "mkqa_sample"]
    kinds = extra_by_kind.split([json.dumps({"source": source}) for source in sources])
    found = {kind: [json.loads(line)["source"] for line in some] for kind, some in kinds.items()}
    assert found == {
        "search": ["efficientqa", "mkqa_sample"],
        "trivia": ["irc_trivia", "red_trivia"],
        "facts": ["mintaka"],
    }


def test_every_second_layer_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Bert(BertConfig(WORDS, D, 2, 2, 32, 32))
    whole = JointModel(encoder, T5Decoder(t5_config()), PointerHead(D), "passages")
    write_joint(tmp_path, whole, asdict(PromptSettings()))
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["half_layers.py", str(tmp_path), str(tmp_path / "half")])
    half_layers.main()
    half = read_joint(tmp_path / "half")
    kept = {name: w for name, w in half.encoder.state_dict().items() if name.startswith("blocks")}
    assert {name.split(".")[1] for name in kept} == {"0"}
    for name, weight in kept.items():
        assert torch.equal(weight, encoder.state_dict()[name.replace("blocks.0", "blocks.1")])
