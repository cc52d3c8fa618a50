"""Memory of readers: facts to check by hand, laws, measured peaks, and the command."""

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jpr.models.config import T5Config
from jpr.models.t5 import T5
from jpr.models.t5_blocks import EncoderBlock
from recipes.reader_memory import (
    OUTSIDE,
    SHAPES,
    WORKSPACE,
    Load,
    inference,
    kept_in_block,
    main,
    most_passages,
    reading,
    training,
    weights,
)

ROOT = Path(__file__).parents[2]
BASE = SHAPES["base"]
TINY = T5Config(100, 48, 16, 128, 2, 4, 3)
GATED = replace(TINY, feed_forward_proj="gated-gelu", tie_word_embeddings=False)

shapes = st.builds(
    T5Config,
    vocab_size=st.integers(1, 40_000),
    d_model=st.integers(1, 2048),
    d_kv=st.integers(1, 128),
    d_ff=st.integers(1, 8192),
    num_layers=st.integers(1, 24),
    num_heads=st.integers(1, 32),
    num_decoder_layers=st.integers(1, 24),
    feed_forward_proj=st.sampled_from(["relu", "gated-gelu"]),
    tie_word_embeddings=st.booleans(),
)
loads = st.builds(
    Load,
    passages=st.integers(1, 1000),
    tokens=st.integers(1, 1000),
    answer=st.integers(1, 100),
    batch=st.integers(1, 16),
)


def test_weights_are_those_of_t5() -> None:
    known = {
        "small": 60_506_624,
        "base": 222_903_552,
        "large": 737_668_096,
        "3b": 2_851_598_336,
        "11b": 11_307_321_344,
    }
    assert {name: weights(shape) for name, shape in SHAPES.items()} == known


@pytest.mark.parametrize("shape", [TINY, GATED])
def test_weights_are_those_of_the_model(shape: T5Config) -> None:
    with torch.device("meta"):
        model = T5(shape)
    assert sum(weight.numel() for weight in model.parameters()) == weights(shape)


def test_the_bytes_of_weights() -> None:
    step = training(BASE, Load(10), checkpointing=False)
    assert inference(BASE, Load(10)).weights == 2 * weights(BASE)
    assert step.weights == 4 * weights(BASE)
    assert step.optimiser == 8 * weights(BASE)  # two moments


def test_a_passage_more_costs_training_what_its_tokens_leave() -> None:
    """12 blocks, keys and values of 12 layers, and before and after them, by hand."""
    block = 2 * (4 + 2) * 768 + 8 + (3 + 1) * 2 * 768 + 4 * 12 + 2 * 3072
    ends = 8 + 768 * (2 + 4 + 2)
    memory = 2 * 2 * 768
    back = 2 * 2 * (768 + 768)
    more = training(BASE, Load(1001), checkpointing=False).total
    less = training(BASE, Load(1000), checkpointing=False).total
    assert more - less == 200 * (12 * block + ends + 12 * memory + back)


class _Flash(torch.autograd.Function):
    """Attention that keeps what a flash kernel keeps, and does nothing."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ANN401
        out = q.clone(memory_format=torch.contiguous_format)
        ctx.save_for_backward(q, k, v, out, torch.zeros(q.shape[:-1]))
        return out


@pytest.mark.parametrize("shape", [TINY, GATED])
def test_a_block_keeps_what_is_counted(shape: T5Config) -> None:
    """Tensor by tensor, on the CPU, where a norm keeps one more and masks have two bytes."""
    tokens, d = 50, shape.d_model
    block = EncoderBlock(shape, dropout=0.1)
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    x = torch.randn(1, tokens, d, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16):
        block(x, _Flash.apply)
    of_tokens = [tensor for tensor in kept.values() if tokens in tensor.shape]
    found = sum(tensor.untyped_storage().nbytes() for tensor in of_tokens)
    on_cpu = 2 * 4 * d + 2 * d + shape.d_ff
    assert found == tokens * (kept_in_block(shape, fused=False) + on_cpu)


@given(shapes, loads, st.sampled_from(["passages", "batch", "answer", "tokens"]), st.booleans())
def test_more_never_needs_less(shape: T5Config, load: Load, what: str, checkpointing: bool) -> None:
    more = replace(load, **{what: getattr(load, what) + 1})
    here, there = (
        training(shape, each, checkpointing=checkpointing).total for each in (load, more)
    )
    assert here <= there
    if what != "tokens":  # of longer passages, fewer may be read at once
        assert inference(shape, load).total <= inference(shape, more).total


@given(shapes, loads, st.booleans())
def test_checkpointing_never_needs_more(shape: T5Config, load: Load, fused: bool) -> None:
    with_it, without = (
        training(shape, load, checkpointing=does, fused=fused).total for does in (True, False)
    )
    assert with_it <= without


@given(shapes, loads)
def test_inference_needs_less_than_training_and_kernels_less_than_none(
    shape: T5Config, load: Load
) -> None:
    least = training(shape, load, checkpointing=True)
    assert inference(shape, load).total < least.total + WORKSPACE // 2  # of a recording
    assert least.total <= training(shape, load, checkpointing=True, fused=False).total


@given(shapes, loads, st.integers(10**6, 10**12))
def test_the_k_that_fits_fits_and_one_more_does_not(
    shape: T5Config, load: Load, memory: int
) -> None:
    def needs(k: int) -> int:
        return inference(shape, replace(load, passages=k)).total

    k = most_passages(needs, memory)
    assert k == 0 or needs(k) <= memory
    assert needs(k + 1) > memory


def test_readers_as_measured() -> None:
    """Readers of four sizes: in training, with checkpointing, and when they write."""
    report = json.loads((ROOT / "results" / "benchmark-memory-h200.json").read_text())
    assert {row["size"] for row in report["rows"]} == {"small", "base", "large", "3b"}
    for row in report["rows"]:
        load = Load(row["passages"], row["tokens"], row["answer"], row["batch"])
        shape, way = SHAPES[row["size"]], row["way"]
        does = way == "checkpointing"
        said = inference(shape, load)
        if way != "inference":
            said = training(shape, load, checkpointing=does)
        assert said.total / 1e9 == pytest.approx(row["peak GB"], rel=0.04)


def test_joint_rerankers_as_measured() -> None:
    """Joint models of T5-base, a reader without words, of passages that are equally long."""
    report = json.loads((ROOT / "results" / "benchmark-train-h200.json").read_text())
    compared = 0
    for row in report["rows"]:
        if (row["model"], row["system"], row["lengths"]) == ("T5-base", "jpr", "full"):
            k, tokens = report["passages a question"], round(row["tokens a passage"])
            load = Load(k, tokens, answer=5, batch=row["questions a step"])
            said = training(BASE, load, checkpointing=row["checkpointing"]).total
            assert said / 1e9 == pytest.approx(row["peak GB"], rel=0.03)
            compared += 1
    assert compared == 2


def test_what_was_measured_in_reading() -> None:
    """The first number of the run in which the encoder was not yet recorded.

    What is measured later in that file has what came before it in memory as well.
    """
    report = json.loads((ROOT / "results" / "benchmark-rerank-h200.json").read_text())
    (run,) = (run for run in report["runs"] if run["commit"] == "9bcc095")
    row = next(row for row in run["rows"] if row["what"] == "jpr: encoder")
    assert (row["shape"], row["lengths"]) == ("base", "padded")
    said = reading(BASE, Load(row["passages"], tokens=360)).total
    assert said / 1e9 == pytest.approx(row["peak GB"], rel=0.03)


def test_torch_is_not_needed() -> None:
    code = "import sys, recipes.reader_memory; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"numpy", "torch"} & set(loaded.stdout.split())


def test_the_benchmark_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "memory.json"
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # as a script sees those beside it
    monkeypatch.setattr("sys.argv", ["memory.py", "--tiny", "--out", str(out)])
    runpy.run_path(str(ROOT / "benchmarks" / "memory.py"), run_name="__main__")
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [row["way"] for row in rows] == ["training", "checkpointing", "inference"]
    assert all(row["predicted GB"] > 0 for row in rows)
    assert len(capsys.readouterr().out.splitlines()) == 4


PAGE = (ROOT / "docs" / "reader-memory.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"```console\n\$ python -m recipes.reader_memory ([^\n]*)\n(.*?)```", PAGE, re.DOTALL
)
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return what it prints."""

    def run(*arguments: object) -> str:
        main([str(argument) for argument in arguments])
        return capsys.readouterr().out

    return run


def test_the_page_shows_what_the_command_prints(run: Run) -> None:
    assert len(SHOWN) == 2
    for command, output in SHOWN:
        assert run(*command.split()) == output


def test_what_is_said_to_fit_fits_and_one_more_does_not(run: Run) -> None:
    found = json.loads(run("--memory", "24GB", "--tokens", 250, "--batch", 2, "--json"))
    assert [row["size"] for row in found["fits"]] == list(SHAPES)
    for row in found["fits"]:
        shape = SHAPES[row["size"]]
        for way, more in product(("inference", "training", "checkpointing"), (0, 1)):
            load = Load(row[way] + more, 250, batch=2)
            if way == "inference":
                peak = inference(shape, load)
            else:
                peak = training(shape, load, checkpointing=way == "checkpointing")
            assert not load.passages or (peak.total + OUTSIDE <= 24e9) == (not more)


def test_the_papers_readers_have_as_many_weights_times_passages(run: Run) -> None:
    found = json.loads(run("--memory", "24GB", "--json"))["paper"]
    assert [(row["k"], row["size"]) for row in found] == [(140, "base"), (40, "large"), (10, "3b")]
    products = [row["k x weights"] for row in found]
    assert max(products) / min(products) < 1.1
    assert found[2]["training"] > 3 * found[0]["training"]  # but not as much memory at batch 1
    batches = json.loads(run("--memory", "24GB", "--batch", 32, "--json"))["paper"]
    needs = [row["checkpointing"] for row in batches]  # of the paper's batches, nearly
    assert max(needs) / min(needs) < 1.25


def test_one_way_to_train_may_be_chosen(run: Run) -> None:
    few = ("--memory", "24GB", "--sizes", "base, small")
    assert "checkpointing" not in run(*few, "--no-checkpointing")
    (row, other) = json.loads(run(*few, "--checkpointing", "--json"))["fits"]
    assert (row["size"], other["size"]) == ("base", "small")
    assert list(row) == ["size", "weights", "checkpointing", "inference"]


def test_a_model_is_planned_for_by_its_config(run: Run, tmp_path: Path) -> None:
    sizes = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
    config = {name: getattr(SHAPES["base"], name) for name in sizes}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5", **config}))
    options = ("--memory", "24GB", "--model", tmp_path, "--json")
    (found,) = json.loads(run(*options))["fits"]
    assert found["size"] == str(tmp_path)
    (base, again) = json.loads(run(*options, "--sizes", "base"))["fits"]
    assert {**base, "size": ""} == {**found, "size": ""} == {**again, "size": ""}


def test_that_nothing_fits_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--memory", "1GB", "--sizes", "3b"])
    printed = capsys.readouterr()
    assert printed.out.count("none fits") == 3
    assert "nothing fits into 1GB" in printed.err


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--memory", "abc"], "--memory abc"),
        (["--memory", "0GB"], "--memory 0GB"),
        (["--memory=-5GB"], "--memory -5GB"),
        (["--memory", "24"], "--memory 24"),
        (["--memory", "24XB"], "--memory 24XB"),
        (["--memory", "9" * 400 + "GB"], "--memory 999"),
        (["--memory", "24GB", "--sizes", "base,huge"], "'huge'"),
        (["--memory", "24GB", "--sizes", ""], "no size ''"),
        (["--memory", "24GB", "--tokens", "0"], "--tokens"),
        (["--memory", "24GB", "--batch", "-1"], "--batch"),
        (["--memory", "24GB", "--model", "absent"], "config.json"),
        ([], "--memory"),
    ],
)
def test_what_has_no_meaning_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], fact: str
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert fact in capsys.readouterr().err


def test_units(run: Run) -> None:
    for text, size in (("24GB", 24 * 10**9), ("1.5 gib", 3 * 2**29), ("500MB", 5 * 10**8)):
        assert json.loads(run("--memory", text, "--json"))["memory"] == size
