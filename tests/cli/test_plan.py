"""`jpr plan`: what fits into a memory, told and refused."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jpr.cli import app
from jpr.models.memory import OUTSIDE, SHAPES, Load, inference, training
from tests.cli.running import fails
from tests.cli.running import jpr as run_jpr

PAGE = Path(__file__).parents[2] / "docs" / "plan.md"


SHOWN = re.findall(
    r"```console\n\$ jpr (plan [^\n]*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_the_command_says(command: str, output: str) -> None:
    assert run_jpr(*command.split()) == output


def test_what_is_said_to_fit_fits_and_one_more_does_not() -> None:
    told = run_jpr("plan", "--memory", "24GB", "--tokens", 250, "--batch", 2, "--json")
    found = json.loads(told)
    assert [row["size"] for row in found["fits"]] == list(SHAPES)
    for row in found["fits"]:
        shape = SHAPES[row["size"]]
        for more in (0, 1):
            writes = Load(row["inference"] + more, 250, batch=2)
            trains = Load(row["training"] + more, 250, batch=2)
            again = Load(row["checkpointing"] + more, 250, batch=2)
            for load, peak in (
                (writes, inference(shape, writes)),
                (trains, training(shape, trains, checkpointing=False)),
                (again, training(shape, again, checkpointing=True)),
            ):
                assert not load.passages or (peak.total + OUTSIDE <= 24e9) == (not more)


def test_the_papers_readers_have_as_many_weights_times_passages() -> None:
    found = json.loads(run_jpr("plan", "--memory", "24GB", "--json"))["paper"]
    assert [(row["k"], row["size"]) for row in found] == [(140, "base"), (40, "large"), (10, "3b")]
    products = [row["k x weights"] for row in found]
    assert max(products) / min(products) < 1.1
    assert found[2]["training"] > 3 * found[0]["training"]  # but not as much memory, one by one
    batches = json.loads(run_jpr("plan", "--memory", "24GB", "--batch", 32, "--json"))["paper"]
    needs = [row["checkpointing"] for row in batches]  # of the paper's batches, nearly
    assert max(needs) / min(needs) < 1.25


def test_one_way_to_train_may_be_chosen() -> None:
    few = ("plan", "--memory", "24GB", "--sizes", "base, small")
    assert "checkpointing" not in run_jpr(*few, "--no-checkpointing")
    (row, other) = json.loads(run_jpr(*few, "--checkpointing", "--json"))["fits"]
    assert (row["size"], other["size"]) == ("base", "small")
    assert list(row) == ["size", "weights", "checkpointing", "inference"]


def test_a_model_is_planned_for_by_its_config(tmp_path: Path) -> None:
    sizes = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
    config = {name: getattr(SHAPES["base"], name) for name in sizes}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5", **config}))
    options = ("plan", "--memory", "24GB", "--model", tmp_path, "--json")
    (found,) = json.loads(run_jpr(*options))["fits"]
    assert found["size"] == str(tmp_path)
    (base, again) = json.loads(run_jpr(*options, "--sizes", "base"))["fits"]
    assert {**base, "size": ""} == {**found, "size": ""} == {**again, "size": ""}


def test_that_nothing_fits_is_told() -> None:
    result = CliRunner().invoke(app, ["plan", "--memory", "1GB", "--sizes", "3b"])
    assert result.exit_code == 0
    assert result.stdout.count("none fits") == 3
    assert "nothing fits into 1GB" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--memory", "abc"], "--memory abc: give a number above 0 and its unit, such as 24GB"),
        (["--memory", "0GB"], "--memory 0GB: give a number above 0"),
        (["--memory", "-5GB"], "--memory -5GB: give a number above 0"),
        (["--memory", "24"], "and its unit"),
        (["--memory", "24XB"], "and its unit"),
        (["--memory", "9" * 400 + "GB"], "and its unit"),
        (["--memory", "24GB", "--sizes", "base,huge"], "no size 'huge'; choose of small, base"),
        (["--memory", "24GB", "--sizes", ""], "no size ''"),
        (["--memory", "24GB", "--tokens", "0"], "'--tokens'"),
        (["--memory", "24GB", "--batch", "-1"], "'--batch'"),
        (["--memory", "24GB", "--model", "absent"], "config.json: cannot be read"),
        ([], "Missing option '--memory'"),
    ],
)
def test_what_has_no_meaning_is_refused(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    assert says in fails(capsys, monkeypatch, "plan", *arguments)


def test_units() -> None:
    for text, size in (("24GB", 24 * 10**9), ("1.5 gib", 3 * 2**29), ("500MB", 5 * 10**8)):
        assert json.loads(run_jpr("plan", "--memory", text, "--json"))["memory"] == size
