"""Training of answer vectors and pairs, from the spans of a pack to what is chosen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.models.joint import JointModel, PointerHead
from jpr.models.joint_folder import read_joint
from jpr.train.assemble import Assembler
from jpr.train.develop import answer_tokens, assembled
from jpr.train.joint import begin, open_feed, train_joint
from jpr.train.pack import Pack, write_pack
from jpr.train.recipe import FeedConfig, JointTraining, ModelConfig
from jpr.train.state import read_log
from tests.train.tiny import (
    WORDS,
    invented_pack,
    tiny_recipe,
    vocabulary,
    write_encoder,
    write_tiny_t5,
)

N, C, K = 10, 6, 2
KINDS = [0, 1, 0, 1, 2, 2]
"""Which answer each candidate of a question holds, 2 being none, before they are shuffled."""


def doubled_pack(seed: int = 0) -> Pack:
    """Questions of two answers, each of which two of six candidates hold, somewhere in the text."""
    chance = np.random.default_rng(seed)
    first, plain = vocabulary()["w0"], invented_pack(N, C)
    tokens = chance.integers(WORDS // 2, WORDS, (N, C, 4))
    kinds = np.array([chance.permutation(KINDS) for _ in range(N)])
    offsets = chance.integers(1, 4, (N, C))  # after the title
    wanted = plain.question_tokens.reshape(N, 2).astype(np.int64) - first
    for question, place in zip(*np.nonzero(kinds < 2), strict=True):
        answer = wanted[question, kinds[question, place]]
        tokens[question, place, offsets[question, place]] = answer
    edges = np.flatnonzero(kinds < 2)
    return replace(
        plain,
        passage_tokens=((tokens + first).reshape(-1).astype(np.uint16),),
        cover_edges=edges.astype(np.uint32),
        cover_answers=kinds.reshape(-1)[edges].astype(np.uint16),
        cover_offsets=offsets.reshape(-1)[edges].astype(np.uint16),
        cover_lengths=np.ones(len(edges), dtype=np.uint8),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_encoder(folder / "encoder")
    write_tiny_t5(folder / "t5")
    write_pack(folder / "pack", doubled_pack())
    torch.set_num_threads(1)
    return folder


PAIRS = (
    "model.pairs=8",
    "objective.targets=uncovered",
    "objective.normalise=any",
    "loop.steps=150",
    "loop.eval_every=150",
    "loop.fresh_learning_rate=8e-3",
)


def recipe(home: Path, *changes: str) -> JointTraining:
    return tiny_recipe(home, (N, C, K), *PAIRS, *changes)


def pair_auc(model: JointModel, home: Path) -> float:
    """How often two candidates of one answer have a larger logit than two of different ones."""
    feed, (_, prompts) = open_feed(FeedConfig(str(home / "pack"))), begin(recipe(home).model)
    listed = feed.listed(np.arange(N), C)
    assert isinstance(model.head, PointerHead)
    with torch.no_grad():
        encoded = model.encode(assembled(Assembler.of(feed.pack, prompts), listed))
        logits = model.head.pair_logits(encoded).numpy()
    covers = listed.covers[..., 0]
    found = []
    for row, held in zip(logits, covers, strict=True):
        i, j = np.nonzero((held[:, None] > 0) & (held > 0) & ~np.eye(C, dtype=np.bool_))
        same = held[i] == held[j]
        found.append((row[i, j][same][:, None] > row[i, j][~same]).mean())
    return float(np.mean(found))


def test_pairs_reach_the_best_cover_where_every_answer_is_there_twice(home: Path) -> None:
    progress = train_joint(recipe(home), home / "joint")
    assert progress.best == 1.0
    model, _ = read_joint(home / "joint")
    assert pair_auc(model, home) == 1.0


@pytest.mark.parametrize("kind", ["independent", "pointwise"])
def test_every_objective_teaches_pairs_and_where_answers_stand(home: Path, kind: str) -> None:
    train_joint(recipe(home, f"objective.kind={kind}"), home / kind)
    model, prompts = begin(ModelConfig(init=str(home / kind)))
    assert pair_auc(model.eval(), home) > 0.95
    feed = open_feed(FeedConfig(str(home / "pack")))
    assembler, listed = Assembler.of(feed.pack, prompts), feed.listed(np.arange(N), C)
    with torch.no_grad():
        attention = model.encode(assembled(assembler, listed)).attention
    assert attention is not None
    answers = answer_tokens(assembler, listed)
    assert int(answers.sum()) == 4 * N
    assert attention[answers].exp().mean().item() > 0.8


def test_a_t5_has_pairs_too(home: Path) -> None:
    changes = [f"model.weights={home / 't5'}", "model.encoder=t5", "loop.steps=40"]
    train_joint(recipe(home, *changes, "loop.log_every=10", "loop.decay=flat"), home / "over-t5")
    losses = [
        float(str(x["loss"])) for x in read_log(home / "over-t5" / "log.jsonl") if "loss" in x
    ]
    assert losses[-1] < 0.8 * losses[0]
    assert read_joint(home / "over-t5")[0].head.pairs is not None


def test_a_model_that_was_trained_without_is_given_pairs(home: Path) -> None:
    train_joint(recipe(home, "model.pairs=0", "loop.steps=5"), home / "plain")
    assert read_joint(home / "plain")[0].head.pairs is None
    go_on = ["model.weights=''", "loop.steps=30", "loop.learning_rate=1e-9"]
    train_joint(recipe(home, *go_on, f"model.init={home / 'plain'}"), home / "given")
    one, two = (read_joint(home / name)[0].state_dict() for name in ("plain", "given"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-6, rtol=0)
    assert two["head.pairs.raw_strength"].item() != pytest.approx(-0.3, abs=1e-3)  # a fresh one
    train_joint(recipe(home, *go_on, f"model.init={home / 'given'}"), home / "again")
    for name, weight in read_joint(home / "again")[0].state_dict().items():  # it kept its own
        torch.testing.assert_close(two[name], weight, atol=1e-6, rtol=0)


def test_packs_may_differ_in_how_many_answers_there_are(home: Path) -> None:
    plain = invented_pack(N, C)
    edges = np.repeat(np.arange(C), 2)  # twelve answers to the first question, bits of two bytes
    many = replace(
        plain,
        cover_edges=edges.astype(np.uint32),
        cover_answers=np.arange(2 * C, dtype=np.uint16),
        cover_offsets=np.tile([1, 2], C).astype(np.uint16),
        cover_lengths=np.ones(2 * C, dtype=np.uint8),
    )
    write_pack(home / "many", many)
    packs = f"data=[{{pack='{home / 'pack'}'}}, {{pack='{home / 'many'}'}}]"
    train_joint(recipe(home, packs, "loop.steps=2", "loop.log_every=1"), home / "mixed")
    losses = [float(str(x["loss"])) for x in read_log(home / "mixed" / "log.jsonl") if "loss" in x]
    assert len(losses) == 2
    assert all(map(np.isfinite, losses))


def test_parts_of_a_batch_add_up(home: Path) -> None:
    """Cutting a batch into micro-batches changes the loss by rounding only."""
    losses = []
    for micros in (1, 3):
        changes = [f"loop.micros={micros}", "loop.steps=1", "loop.log_every=1"]
        out = home / f"micros-{micros}"
        train_joint(recipe(home, *changes), out)
        losses.append(float(str(next(iter(read_log(out / "log.jsonl")))["loss"])))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
