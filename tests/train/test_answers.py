"""Training of a model that reads answers, from the spans of a pack to what is chosen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.models.joint_checkpoint import read_joint
from jpr.train.batch import BatchBuilder
from jpr.train.joint import load_model, open_dataset, train_joint
from jpr.train.pack import Pack, write_pack
from jpr.train.recipe import DataConfig, JointTraining, ModelConfig
from jpr.train.state import read_log
from tests.train.tiny import (
    WORDS,
    invented_pack,
    losses,
    tiny_recipe,
    vocabulary,
    write_encoder,
    write_tiny_t5,
)

N, C, K = 10, 6, 2
KINDS = [0, 1, 0, 1, 2, 2]
"""Which answer each candidate of a question holds, 2 being none, before they are shuffled."""


def doubled_pack(seed: int = 0) -> Pack:
    """Questions of two answers, each of which two of six candidates hold, somewhere in the text.

    The first answer is a word of the question, the second is one twice.
    """
    chance = np.random.default_rng(seed)
    first, plain = vocabulary()["w0"], invented_pack(N, C)
    tokens = chance.integers(WORDS // 2, WORDS, (N, C, 4))
    kinds = np.array([chance.permutation(KINDS) for _ in range(N)])
    offsets = chance.integers(1, 3, (N, C))  # after the title
    expected = plain.question_tokens.reshape(N, 2).astype(np.int64) - first
    for question, place in zip(*np.nonzero(kinds < 2), strict=True):
        answer = expected[question, kinds[question, place]]
        first_token = offsets[question, place]
        tokens[question, place, first_token : first_token + 1 + kinds[question, place]] = answer
    edges = np.flatnonzero(kinds < 2)
    return replace(
        plain,
        passage_tokens=((tokens + first).reshape(-1).astype(np.uint16),),
        cover_edges=edges.astype(np.uint32),
        cover_answers=kinds.reshape(-1)[edges].astype(np.uint16),
        span_covers=np.arange(len(edges), dtype=np.uint32),
        span_offsets=offsets.reshape(-1)[edges].astype(np.uint16),
        span_lengths=(1 + kinds.reshape(-1)[edges]).astype(np.uint8),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    write_encoder(folder / "encoder")
    write_tiny_t5(folder / "t5")
    write_pack(folder / "pack", doubled_pack())
    torch.set_num_threads(1)
    return folder


CHANGES = (
    "objective.targets=uncovered",
    "objective.normalize=any",
    "loop.steps=150",
    "loop.eval_every=150",
    "loop.fresh_learning_rate=8e-3",
)


def recipe(home: Path, *changes: str) -> JointTraining:
    return tiny_recipe(home, (N, C, K), *CHANGES, *changes)


def test_one_passage_of_each_answer_is_chosen_where_every_answer_is_there_twice(home: Path) -> None:
    progress = train_joint(recipe(home), home / "joint")
    assert progress.best == 1.0
    line = next(line for line in read_log(home / "joint" / "log.jsonl") if "score" in line)
    assert line["pack joint all"] == 1.0


@pytest.mark.parametrize("kind", ["independent", "pointwise", "joint"])
def test_every_objective_teaches_where_answers_stand(home: Path, kind: str) -> None:
    train_joint(recipe(home, f"objective.kind={kind}", "loop.log_every=10"), home / kind)
    model, prompts = load_model(ModelConfig(init=str(home / kind)))
    dataset = open_dataset(DataConfig(str(home / "pack")))
    builder, batch = BatchBuilder(dataset.pack, prompts), dataset.batch(np.arange(N), C)
    with torch.no_grad():
        found = model.eval().encode(builder.build(batch)).answers
    assert found is not None
    spans = builder.answer_spans(batch)
    assert len(spans.first) == 4 * N
    planted = found[spans.first, spans.last - spans.first]
    assert (planted > 0).float().mean().item() > 0.9
    assert (found > 0).sum().item() < 1.1 * len(planted)
    trained = losses(home / kind)
    assert trained[-1] < 0.2 * trained[0]


def test_a_t5_reads_answers_too(home: Path) -> None:
    changes = [f"model.weights={home / 't5'}", "model.encoder=t5", "loop.steps=40"]
    train_joint(recipe(home, *changes, "loop.log_every=10", "loop.decay=flat"), home / "over-t5")
    found = losses(home / "over-t5")
    assert found[-1] < 0.8 * found[0]
    assert read_joint(home / "over-t5").answers is not None


def test_a_model_that_was_trained_without_learns_it(home: Path) -> None:
    train_joint(recipe(home, "model.answers=false", "loop.steps=5"), home / "plain")
    assert read_joint(home / "plain").answers is None
    go_on = ["model.weights=''", "loop.steps=30", "loop.learning_rate=1e-9"]
    train_joint(recipe(home, *go_on, f"model.init={home / 'plain'}"), home / "given")
    one, two = (read_joint(home / name).state_dict() for name in ("plain", "given"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-6, rtol=0)
    assert {name.partition(".")[0] for name in two.keys() - one.keys()} == {"answers"}
    train_joint(recipe(home, *go_on, f"model.init={home / 'given'}"), home / "again")
    for name, weight in read_joint(home / "again").state_dict().items():  # it kept its own
        torch.testing.assert_close(two[name], weight, atol=1e-6, rtol=0)


def test_packs_are_mixed(home: Path) -> None:
    """The spans of one are moved behind the other's candidates and tokens."""
    packs = f"data=[{{pack='{home / 'pack'}'}}, {{pack='{home / 'other'}'}}]"
    write_pack(home / "other", doubled_pack(seed=1))
    train_joint(recipe(home, packs, "dev.packs=[]", "loop.steps=200"), home / "mixed")
    model, prompts = load_model(ModelConfig(init=str(home / "mixed")))
    for name in ("pack", "other"):
        dataset = open_dataset(DataConfig(str(home / name)))
        builder, batch = BatchBuilder(dataset.pack, prompts), dataset.batch(np.arange(N), C)
        with torch.no_grad():
            found = model.eval().encode(builder.build(batch)).answers
        assert found is not None
        spans = builder.answer_spans(batch)
        assert (found[spans.first, spans.last - spans.first] > 0).float().mean().item() > 0.8


def test_parts_of_a_batch_add_up(home: Path) -> None:
    """Cutting a batch into micro-batches changes the loss by rounding only."""
    found = []
    for micros in (1, 3):
        changes = [f"loop.micro_batches={micros}", "loop.steps=1", "loop.log_every=1"]
        train_joint(recipe(home, *changes), home / f"micros-{micros}")
        found += losses(home / f"micros-{micros}")
    assert found[0] == pytest.approx(found[1], rel=1e-5)
