from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.coverage import Coverage
from jpr.errors import ConfigError
from jpr.evaluation.measures import JudgedRun, MRecall, mrecall
from jpr.models.heads import IndexHead
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import read_joint
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import Vocabulary
from jpr.rerank.joint import JointReranker
from jpr.rerank.prompt import Prompts
from jpr.train.batch import BatchBuilder
from jpr.train.development import Chooser, answers_found, chosen_places, score_pack
from jpr.train.dynamic_oracle import has_answer
from jpr.train.joint import load_model, open_dataset, train_joint
from jpr.train.pack import Pack
from jpr.train.recipe import DataConfig, JointTraining, ModelConfig
from jpr.train.sampler import Dataset
from jpr.train.state import RunProgress, read_log
from jpr.types import Hit, Passage, Question
from tests.train.test_dynamic_oracle import bits
from tests.train.tiny import (
    losses,
    tiny_recipe,
    vocabulary,
    write_encoder,
    write_invented,
    write_tiny_t5,
)

N, C, K = 10, 6, 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joint")
    write_encoder(folder / "encoder")
    write_invented(folder / "pack", N, C)
    torch.set_num_threads(1)
    return folder


def recipe(home: Path, *changes: str) -> JointTraining:
    return tiny_recipe(home, (N, C, K), *changes)


def best_possible(dataset: Dataset) -> float:
    """The share of questions to all of whose answers there are candidates."""
    batch = dataset.batch(np.arange(N), C)
    everything = [range(C)] * N
    found = answers_found(batch.covers, everything)
    return float(mrecall(found, dataset.pack.n_answers, C).mean())


def trained(home: Path, name: str, *changes: str) -> tuple[RunProgress, Path]:
    return train_joint(recipe(home, *changes), home / name), home / name


def reopened(out: Path) -> tuple[JointModel, Prompts]:
    model, prompts = load_model(ModelConfig(init=str(out)))
    return model.eval(), prompts


@pytest.mark.parametrize("kind", ["independent", "pointwise", "joint"])
def test_a_tiny_model_learns_a_pack_by_heart(home: Path, kind: str) -> None:
    progress, out = trained(home, kind, f"objective.kind={kind}")
    model, prompts = reopened(out)
    dataset = open_dataset(DataConfig(str(home / "pack")))
    scores = score_pack(model, dataset, BatchBuilder(dataset.pack, prompts)).reshape(N, C)
    batch = dataset.batch(np.arange(N), C)
    answering = has_answer(batch.covers)
    top = answering[np.arange(N), scores.argmax(axis=1)]
    assert top[answering.any(axis=1)].all()
    if kind == "joint":  # only this one is taught to choose what the others lack
        assert progress.best == best_possible(dataset)


@pytest.mark.parametrize(
    "changes",
    [
        ["objective.targets=uncovered", "objective.normalize=any"],
        ["objective.prefix=no-negatives", "objective.normalize=sum"],
        ["objective.prefix=teacher-forcing", "candidates=0"],
    ],
)
def test_every_way_to_teach_reaches_the_best_cover(home: Path, changes: list[str]) -> None:
    progress, _ = trained(home, "-".join(changes), *changes)
    assert progress.best == best_possible(open_dataset(DataConfig(str(home / "pack"))))


@pytest.mark.parametrize(("head", "left"), [("pointer", 0.75), ("index", 0.95)])
def test_a_t5_learns_with_either_head(home: Path, head: str, left: float) -> None:
    """The index head first has to learn that numbers are copied, which is slow."""
    write_tiny_t5(home / "t5")
    model = [f"model.weights={home / 't5'}", "model.encoder=t5", f"model.head={head}"]
    more = ["model.index_tokens=20", "loop.log_every=20", "loop.decay=flat", "loop.steps=60"]
    _, out = trained(home, f"t5-{head}", *model, *more)
    found = losses(out)
    assert found[-1] < left * found[0]
    reranker = JointReranker.load(out, "tree", 2.0, device="cpu")
    text, hits = texts_of(open_dataset(DataConfig(str(home / "pack"))).pack, 0)
    assert len(reranker.rank(Question("q", text), hits, K).hits) == K


def test_an_index_head_learns_with_two_candidates_and_resumes_with_more(home: Path) -> None:
    write_tiny_t5(home / "t5")
    index = ["model.encoder=t5", "model.head=index", "model.index_tokens=20", "model.answers=false"]
    begun = [*index, f"model.weights={home / 't5'}", "model.memory=passages"]
    loop = ["loop.log_every=20", "loop.decay=flat"]
    _, pairs = trained(home, "pairs", *begun, *loop, "k=1", "candidates=2", "loop.steps=140")
    found = losses(pairs)
    assert found[-1] < 0.7 * found[0]
    on = [*index, "model.weights=''", f"model.init={pairs}"]
    _, went_on = trained(home, "after-pairs", *on, *loop, "loop.steps=60")
    _, at_once = trained(home, "at-once", *begun, *loop, "loop.steps=60")
    assert losses(went_on)[-1] < losses(at_once)[-1]
    assert reopened(went_on)[0].memory == "passages"


def test_a_model_that_points_knows_no_numbers(home: Path) -> None:
    _, points = trained(home, "points", "loop.steps=1")
    with pytest.raises(ConfigError, match=r"points has a pointer head.*model\.head"):
        load_model(ModelConfig(init=str(points), head="index", encoder="t5", index_tokens=20))


def test_scores_of_a_pack_are_the_first_step_of_each_question(home: Path) -> None:
    model, prompts = load_model(ModelConfig(weights=str(home / "encoder"), max_tokens=128))
    model.eval()
    dataset = open_dataset(DataConfig(str(home / "pack")))
    builder = BatchBuilder(dataset.pack, prompts)
    scores = score_pack(model, dataset, builder, size=4)
    assert scores.dtype == np.float16
    for question in range(N):
        candidates = builder.build(dataset.batch(np.array([question]), C))
        with torch.no_grad():
            none = torch.zeros(1, 0, dtype=torch.long)
            expected = model.log_probs(model.encode(candidates), none)[0, 0]
        found = scores[question * C : (question + 1) * C]
        np.testing.assert_allclose(found, expected.numpy(), atol=2e-3)


def test_two_stages_and_scores(home: Path) -> None:
    _, first = trained(home, "first", "objective.kind=independent", "loop.steps=60")
    model, prompts = load_model(ModelConfig(init=str(first), dropout=0.3))
    dataset = open_dataset(DataConfig(str(home / "pack")))
    scores = score_pack(model.eval(), dataset, BatchBuilder(dataset.pack, prompts))
    np.save(home / "scores.npy", scores)
    changes = [
        f"model.init={first}",
        "model.weights=''",
        f"data.scores={home / 'scores.npy'}",
        "loop.steps=2",
        "loop.log_every=1",
        "loop.learning_rate=1e-6",
    ]
    _, second = trained(home, "second", *changes)
    one, two = (read_joint(folder).state_dict() for folder in (first, second))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-5, rtol=0)
    assert [line["step"] for line in read_log(second / "log.jsonl") if "loss" in line] == [1, 2]


def test_a_teacher_alone_is_enough(home: Path) -> None:
    """A model trained only on another model's scores gives the probabilities that it gives."""
    _, teacher = trained(home, "teacher", "objective.kind=independent")
    taught = [f"objective.teacher={teacher}", "objective.teacher_weight=1.0"]
    _, student = trained(home, "student", "objective.kind=independent", *taught, "loop.seed=5")
    dataset = open_dataset(DataConfig(str(home / "pack")))
    probs = []
    for folder in (teacher, student):
        model, prompts = reopened(folder)
        scores = score_pack(model, dataset, BatchBuilder(dataset.pack, prompts)).reshape(N, C)
        probs.append(np.exp(scores.astype(np.float64)))
    assert np.ptp(probs[0], axis=1).min() > 0.2
    np.testing.assert_allclose(probs[1], probs[0], atol=0.1)
    with pytest.raises(ConfigError, match=r"objective\.teacher: .*\(max_tokens\)"):
        trained(home, "other", *taught, "model.max_tokens=120", "loop.steps=1")
    nowhere = ["objective.teacher=nowhere", "objective.teacher_weight=0.5"]
    with pytest.raises(ConfigError, match=r"objective\.teacher: nowhere"):
        trained(home, "other", *nowhere, "loop.steps=1")


def test_numbers_are_reported_apart_when_a_head_begins(home: Path) -> None:
    write_tiny_t5(home / "t5")
    asked = ModelConfig(weights=str(home / "t5"), encoder="t5", head="index", index_tokens=20)
    before, after = (
        load_model(replace(asked, reset_index_tokens=reset))[0].head for reset in (False, True)
    )
    assert isinstance(before, IndexHead)
    assert isinstance(after, IndexHead)
    old, new = before.words.weight, after.words.weight
    changed = (old != new).any(dim=1).nonzero()[:, 0]
    assert changed.tolist() == sorted(after.tokens.tolist())
    torch.testing.assert_close(new[changed].norm(dim=1), old.norm(dim=1).mean().expand(20))
    assert after.out is not None
    torch.testing.assert_close(after.out[changed].norm(dim=1), torch.ones(20))


def test_dropout_is_set_in_a_model_that_was_trained_before(home: Path) -> None:
    _, out = trained(home, "short", "loop.steps=1")
    model, prompts = load_model(ModelConfig(init=str(out), dropout=0.5))
    dataset = open_dataset(DataConfig(str(home / "pack")))
    candidates = BatchBuilder(dataset.pack, prompts).build(dataset.batch(np.arange(2), C))
    none = torch.zeros(2, 0, dtype=torch.long)
    with torch.no_grad():
        model.train()
        one, two = (model.log_probs(model.encode(candidates), none) for _ in range(2))
    assert not torch.allclose(one, two)


def test_what_was_trained_ranks_as_it_was_judged(home: Path) -> None:
    """The reranker, given texts, chooses what development chose, given the pack."""
    _, out = trained(home, "ranked", "objective.targets=uncovered")
    model, prompts = reopened(out)
    dataset = open_dataset(DataConfig(str(home / "pack")))
    builder = BatchBuilder(dataset.pack, prompts)
    chooser = Chooser(model, Vocabulary.of(prompts.tokenizer), {"joint": Decoding("tree", 2.0)})
    chosen = chosen_places(chooser, builder, dataset.batch(np.arange(N), C), K)["joint"]
    reranker = JointReranker.load(out, "tree", 2.0, device="cpu")
    for question in range(N):
        text, hits = texts_of(dataset.pack, question)
        found = reranker.rank(Question("q", text), hits, K)
        ids = [int(hit.passage.id) for hit in found.hits]
        assert ids == list(chosen[question])


def texts_of(pack: Pack, question: int) -> tuple[str, list[Hit]]:
    words = {i: word for word, i in vocabulary().items()}
    first, last = pack.question_starts[question : question + 2]
    asked = " ".join(words[int(i)] for i in pack.question_tokens[first:last])
    hits = []
    for place in range(C):
        row = int(pack.candidates[question * C + place])
        begin, end = pack.passage_starts[row : row + 2]
        title, *text = (words[int(i)] for i in pack.passage_tokens[0][begin:end])
        hits.append(Hit(Passage(str(place), title, " ".join(text)), 0.0))
    return asked, hits


rankings = st.lists(
    st.lists(st.sets(st.integers(0, 4), max_size=2), min_size=5, max_size=5), min_size=1, max_size=5
)


@settings(max_examples=50)
@given(rankings, st.permutations(range(5)), st.integers(1, 5), st.integers(0, 2))
def test_mrecall_is_that_of_evaluation(
    table: list[list[set[int]]], order: list[int], k: int, unfound: int
) -> None:
    n = [len(set().union(*row)) + unfound for row in table]
    renumbered = [[{_rank(row, a) for a in held} for held in row] for row in table]
    run = Coverage.of_lists(n, [[row[place] for place in order] for row in renumbered])
    expected = (MRecall @ k).of(JudgedRun(run, run))
    found = mrecall(answers_found(bits(table), [order[:k]] * len(table)), np.array(n), k)
    assert found.tolist() == expected.astype(bool).tolist()


def _rank(row: list[set[int]], answer: int) -> int:
    return sorted(set().union(*row)).index(answer)
