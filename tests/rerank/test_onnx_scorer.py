"""Joint models without torch: the same rankings, and clear words for damage."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from jpr.decode.search import chosen_passages
from jpr.errors import FormatError, JprError
from jpr.io.atomic import publish_folder
from jpr.rerank.joint import JointReranker, model_input
from jpr.rerank.onnx_scorer import OnnxScorer
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.rerank.save import export_joint, spread
from jpr.rerank.torch_scorer import TorchScorer
from jpr.types import Hit, Passage, Question, Ranking
from tests.damage import damaged, without_sums
from tests.rerank.tiny import (
    NAMES,
    NUMBER_TOKENS,
    QUESTION,
    hits,
    ranking,
    tokenizer,
    write_pointer,
    write_t5,
)

Write = Callable[[Path], Path]
WRITERS: dict[str, tuple[Write, PromptSettings]] = {
    "pointer over bert": (write_pointer, PromptSettings()),
    "pointer over t5": (
        lambda folder: write_t5(folder, "pointer"),
        PromptSettings("t5", number_tokens=NUMBER_TOKENS[:1]),
    ),
    "index over t5": (
        lambda folder: write_t5(folder, "index"),
        PromptSettings("t5", number_tokens=NUMBER_TOKENS),
    ),
    "answers over bert": (lambda folder: write_pointer(folder, answers=True), PromptSettings()),
    "answers over t5": (
        lambda folder: write_t5(folder, "pointer", answers=True),
        PromptSettings("t5", number_tokens=NUMBER_TOKENS[:1]),
    ),
}
every_model = pytest.mark.parametrize(("write", "settings"), WRITERS.values(), ids=WRITERS.keys())
every_writer = pytest.mark.parametrize(
    "write", [write for write, _ in WRITERS.values()], ids=WRITERS.keys()
)
MANY = [ranking(NAMES[i:], str(i)) for i in range(8)]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)


def exported(folder: Path, write: Write, sample: list[Ranking] | None = None) -> Path:
    """A model in torch under `torch`, and what was made of it under `onnx`."""
    with publish_folder(folder / "onnx") as made:
        export_joint(write(folder / "torch"), made, sample or [])
    return folder / "onnx"


@every_writer
@pytest.mark.parametrize("decoder", ["tree", "seq", "beam", "independent"])
def test_both_ways_choose_the_same(tmp_path: Path, write: Write, decoder: str) -> None:
    folder = exported(tmp_path, write)
    here = JointReranker.load(folder, decoder, device="cpu", threads=1)
    there = JointReranker.load(tmp_path / "torch", decoder, device="cpu")
    for ours, theirs in zip(here.decode_many(MANY, 4), there.decode_many(MANY, 4), strict=True):
        assert chosen_passages(ours.nodes) == chosen_passages(theirs.nodes)
        scores = [[node.score for node in choice.nodes] for choice in (ours, theirs)]
        np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
        assert ours.question == theirs.question
    assert here.key != there.key  # rankings may differ in the last bits


@every_model
def test_prefixes_in_any_order_and_company(
    tmp_path: Path, write: Write, settings: PromptSettings
) -> None:
    folder = exported(tmp_path, write)
    here, there = OnnxScorer(folder, {}, 1), TorchScorer.load(tmp_path / "torch", {}, "cpu")
    assert here.index_tokens == there.index_tokens
    asked = [
        model_input(Prompts(tokenizer(), settings), here.index_tokens, one) for one in MANY[:2]
    ]
    expected = [(1, (3, 0, 2)), (0, ()), (0, (1,)), (1, ()), (0, (5, 1)), (0, (1, 5)), (0, ())]
    ours, theirs = here.open(asked).ask, there.open(asked).ask
    for _ in range(2):  # the second time all are known
        for found, row in zip(ours(expected), theirs(expected), strict=True):
            np.testing.assert_allclose(found, row, atol=1e-4)
    assert [len(row) for row in ours(expected)] == [9, 10, 10, 9, 10, 10, 10]


def test_many_prefixes_and_some_once_more(tmp_path: Path) -> None:
    """What is asked for again, and in other batches, disturbs nothing."""
    folder = exported(tmp_path, write_pointer)
    asked = model_input(Prompts(tokenizer(), PromptSettings()), 0, ranking(NAMES))
    pairs = [(0, prefix) for length in range(4) for prefix in permutations(range(5), length)]
    at_once, bit_by_bit = (OnnxScorer(folder, {}, 1).open([asked]).ask for _ in range(2))
    whole = dict(zip(pairs, at_once(pairs), strict=True))
    assert len(pairs) > 64
    for first in range(0, len(pairs), 9):
        some = [pairs[first // 2], *pairs[first : first + 9]]
        for pair, row in zip(some, bit_by_bit(some), strict=True):
            np.testing.assert_allclose(row, whole[pair], atol=1e-4)


@every_model
def test_eight_bits_are_close(tmp_path: Path, write: Write, settings: PromptSettings) -> None:
    folder = exported(tmp_path, write, MANY)
    about = json.loads((folder / "joint.json").read_text())
    assert about["precision"] == "int8"
    here, there = OnnxScorer(folder, {}, 1), TorchScorer.load(tmp_path / "torch", {}, "cpu")
    asked = [model_input(Prompts(tokenizer(), settings), here.index_tokens, ranking())]
    expected = [(0, ()), (0, (4,)), (0, (4, 7))]
    ours, theirs = (scorer.open(asked).ask(expected) for scorer in (here, there))
    for found, row in zip(ours, theirs, strict=True):
        assert np.abs(np.exp(found) - np.exp(row)).max() < 0.05
        assert np.array_equal(np.isneginf(found), np.isneginf(row))


def test_one_candidate_none_and_a_thousand(tmp_path: Path) -> None:
    reranker = JointReranker.load(exported(tmp_path, write_pointer), device="cpu", threads=1)
    assert [h.passage.id for h in reranker.rank(QUESTION, hits(["red"]), 5).hits] == ["red"]
    assert reranker.rank(QUESTION, [], 5).hits == ()
    assert reranker.rank(QUESTION, hits(NAMES), 0).hits == ()
    assert len(reranker.rank(QUESTION, hits(NAMES), 99).hits) == len(NAMES)
    many = [
        Hit(Passage(str(i), NAMES[i % 10], f"{NAMES[i // 10 % 10]} " * (1 + i % 7)), -float(i))
        for i in range(1000)
    ]
    found = reranker.rank(QUESTION, many, 20)
    expected = JointReranker.load(tmp_path / "torch", device="cpu").rank(QUESTION, many, 20)
    assert [h.passage.id for h in found.hits] == [h.passage.id for h in expected.hits]


def test_threads_may_share_a_reranker(tmp_path: Path) -> None:
    reranker = JointReranker.load(exported(tmp_path, write_pointer), device="cpu", threads=1)
    alone = [list(reranker.rank_many([one], 5)) for one in MANY]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: list(reranker.rank_many([one], 5)), MANY * 4))
    assert together == alone * 4


WITHOUT_TORCH = """
import sys
from pathlib import Path

sys.modules.update(dict.fromkeys(("torch", "safetensors", "onnx")))  # as if not installed
from jpr.rerank.joint import JointReranker
from jpr.types import Hit, Passage, Question

names = sys.argv[2].split()
hits = [Hit(Passage(name, name, f"{name} which {name}"), 1.0) for name in names]
found = JointReranker.load(Path(sys.argv[1])).rank(Question("q", "which colour ?"), hits, 4)
print(*(hit.passage.id for hit in found.hits))
"""


def test_it_runs_without_torch(tmp_path: Path) -> None:
    folder = exported(tmp_path, write_pointer)
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder), " ".join(NAMES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = JointReranker.load(tmp_path / "torch", device="cpu").rank(QUESTION, hits(NAMES), 4)
    assert done.stdout.split() == [hit.passage.id for hit in expected.hits]


def test_where_both_are_the_cpu_takes_onnx(tmp_path: Path) -> None:
    folder = exported(tmp_path, write_pointer)
    without_sums(folder / "joint.json")
    for file in (tmp_path / "torch").glob("model*"):
        (folder / file.name).write_bytes(file.read_bytes())
    onnx = JointReranker.load(folder, device="cpu").key
    (folder / "config.json").write_text("{}")
    for name in ("encoder.onnx", "step.onnx"):
        (folder / name).unlink()
    assert JointReranker.load(folder, device="cpu").key != onnx


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    folder = exported(tmp_path, write_pointer)
    without_sums(folder / "joint.json")
    encoder, step = folder / "encoder.onnx", folder / "step.onnx"
    whole = step.read_bytes()
    for name in (encoder, step):
        kept = name.read_bytes()
        for size in (0, 10, len(kept) // 2, len(kept) - 1):
            name.write_bytes(kept[:size])
            with pytest.raises(FormatError, match=r"(encoder|step)\.onnx: "):
                JointReranker.load(folder, device="cpu")
        name.write_bytes(kept)
    step.unlink()
    with pytest.raises(FormatError, match=r"step\.onnx: is missing; export"):
        JointReranker.load(folder, device="cpu")
    step.write_bytes(encoder.read_bytes())
    with pytest.raises(FormatError, match="not a joint model"):
        JointReranker.load(folder, device="cpu")
    other = exported(tmp_path / "other", lambda folder: write_pointer(folder, seed=1))
    step.write_bytes((other / "step.onnx").read_bytes())
    with pytest.raises(FormatError, match="different models"):
        JointReranker.load(folder, device="cpu")
    step.write_bytes(whole)
    assert len(JointReranker.load(folder, device="cpu").rank(QUESTION, hits(NAMES), 3).hits) == 3
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        JointReranker.load(folder, device="cpu")


def test_a_span_head_is_checked_with_the_other_files(tmp_path: Path) -> None:
    folder = exported(tmp_path, lambda folder: write_pointer(folder, answers=True))
    spans, encoder = folder / "spans.npz", folder / "encoder.onnx"
    assert json.loads((folder / "joint.json").read_text())["sums"].keys() >= {spans.name}
    other = exported(tmp_path / "other", lambda folder: write_pointer(folder, 1, answers=True))
    spans.write_bytes((other / spans.name).read_bytes())
    with pytest.raises(FormatError, match=r"spans\.npz: is damaged"):
        JointReranker.load(folder, device="cpu")
    spans.unlink()
    with pytest.raises(FormatError, match=r"spans\.npz"):
        JointReranker.load(folder, device="cpu")
    without_sums(folder / "joint.json")
    made = onnx.load(encoder)
    ends = onnx.helper.make_tensor_value_info("answers", onnx.TensorProto.FLOAT, ["B", "T", 16])
    made.graph.node.append(onnx.helper.make_node("Identity", ["vectors"], ["answers"]))
    made.graph.output.append(ends)
    onnx.save(made, encoder)  # an encoder with an output of answers, as jpr 0.1 exported it
    with pytest.raises(FormatError, match=r"spans\.npz: is missing.* jpr 0\.1"):
        JointReranker.load(folder, device="cpu")


def test_whatever_is_wrong_with_the_description_is_reported(tmp_path: Path) -> None:
    folder = exported(tmp_path, lambda folder: write_t5(folder, "index"))
    file = folder / "joint.json"
    about = without_sums(file)
    parts = {name: about[name] for name in ("format", "kind", "prompt")}
    parts["prompt"]["number_tokens"] = about["prompt"]["number_tokens"][:2]
    for bad in damaged(parts):
        file.write_text(json.dumps(bad))
        try:
            JointReranker.load(folder)
        except JprError as error:
            assert str(folder) in str(error)  # noqa: PT017  some damage is no matter
    file.write_text(json.dumps(parts))
    with pytest.raises(FormatError, match=r"2 index tokens .*12"):
        JointReranker.load(folder)
    file.write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        JointReranker.load(folder)


def test_a_sample_is_from_all_over() -> None:
    assert spread(list(range(10)), 3) == [0, 3, 6]
    assert spread(["a", "b"], 5) == ["a", "b"]
    assert spread([], 5) == []
    assert spread([Question("q", "x")], 1) == [Question("q", "x")]
