"""Training of a reader, on an invented pack in which answers are words that the question has."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.errors import DataError
from jpr.io.settings import apply_changes, parse_table
from jpr.read.generate import FusionReader
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.train.batch import BatchBuilder
from jpr.train.joint import open_dataset
from jpr.train.reader import (
    END,
    NONE,
    SEPARATOR,
    PackReader,
    answer_positions,
    load_reader,
    target_tokens,
    top_candidates,
    train_reader,
    with_targets,
)
from jpr.train.recipe import DataConfig, ReaderTraining, read_recipe
from jpr.train.sampler import Dataset
from jpr.types import Hit, Passage, Question, Ranking
from recipes.reader_models import write_answers
from tests.train.tiny import invented_pack, vocabulary, write_invented, write_tiny_t5

N, C, K = 10, 6, 4
WORD = {id: word for word, id in vocabulary().items()}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    write_tiny_t5(folder / "t5")
    write_invented(folder / "pack", N, C)
    torch.set_num_threads(1)
    return folder


def recipe(home: Path, *changes: str) -> ReaderTraining:
    given: dict[str, object] = {
        "k": K,
        "batch": N,
        "reader": {
            "weights": str(home / "t5"),
            "dropout": 0.0,
            "max_tokens": 128,
            "max_answer_tokens": 8,
        },
        "data": [{"pack": str(home / "pack")}],
        "dev": {"packs": [str(home / "pack")]},
        "loop": {"steps": 300, "learning_rate": 1e-2, "warmup": 10, "eval_every": 100},
    }
    return parse_table(ReaderTraining, apply_changes(given, changes), "a recipe")


def expected(dataset: Dataset, question: int, k: int) -> list[str]:
    """A question's answers in its first k passages, in the order of the passages."""
    pack, found = dataset.pack, []
    for edge, answer in zip(pack.cover_edges.tolist(), pack.cover_answers.tolist(), strict=True):
        if question * C <= edge < question * C + k:
            word = WORD[int(pack.question_tokens[2 * question + answer])]
            found += [word] if word not in found else []
    return found


def test_targets_are_the_answers_of_the_passages_in_their_order(home: Path) -> None:
    dataset = Dataset(invented_pack(N, C))
    _, prompts, _ = load_reader(recipe(home).reader)
    builder = BatchBuilder(dataset.pack, prompts)
    for batch in dataset.batches(dataset.usable, 0, 3):
        short = top_candidates(dataset, batch, K)
        places = answer_positions(builder, short, 8)
        tokens = target_tokens(builder, places, 1001, 1002, 1003)
        for row, question in zip(tokens.tolist(), batch.questions.tolist(), strict=True):
            words = [WORD.get(token, str(token)) for token in row if token != 1003]
            answers = expected(dataset, question, K)
            between = [word for answer in answers for word in (answer, "1001")]
            assert words == [*between[:-1], *(["1002"] if answers else [])]


def test_scores_choose_what_is_read() -> None:
    pack = invented_pack(N, C)
    scores = np.full(N * C, -np.inf, dtype=np.float16)
    scores[[4, 1, C + 5]] = 2.0, 1.0, 0.5
    dataset = Dataset(pack, scores=scores)
    batch = top_candidates(dataset, dataset.batch(np.arange(2), C), 3)
    assert batch.edges.tolist() == [[4, 1, -1], [C + 5, -1, -1]]


def test_questions_without_an_answer_in_what_is_read_are_not_drawn() -> None:
    pack = invented_pack(N, C)
    for k in (1, K, C):
        first = with_targets(Dataset(pack), k).usable.tolist()
        assert first == [q for q in range(N) if expected(Dataset(pack), q, k)]
    scores = np.full(N * C, -np.inf, dtype=np.float16)
    covered = int(pack.cover_edges[3])
    scores[covered] = 1.0
    assert with_targets(Dataset(pack, scores=scores), K).usable.tolist() == [covered // C]
    with pytest.raises(DataError, match="no question has an answer"):
        with_targets(Dataset(pack, scores=np.full(N * C, -np.inf)), K)


def test_what_does_not_fit_is_left_out_and_noise_orders(home: Path) -> None:
    dataset = Dataset(invented_pack(N, C))
    _, prompts, _ = load_reader(recipe(home).reader)
    batch, builder = dataset.batch(np.arange(N), C), BatchBuilder(dataset.pack, prompts)
    assert (answer_positions(builder, batch, 1) == NONE).all()
    short = answer_positions(builder, batch, 2)
    assert short.shape[1] == 2
    assert set(short[:, 1].tolist()) <= {END, NONE}
    plain = answer_positions(builder, batch, 8)
    two = (plain == SEPARATOR).any(axis=1)
    assert two.any()
    orders = set()
    for number in range(20):
        noise = np.full((N, 1), number / 20)  # a column for two answers
        turned = answer_positions(builder, batch, 8, noise)
        assert np.array_equal(np.sort(turned), np.sort(plain))
        orders |= {bool(x) for x in (turned[two, 0] == plain[two, 0])}
    assert orders == {True, False}


def test_an_answer_that_is_not_read_is_no_target(home: Path) -> None:
    dataset = Dataset(invented_pack(N, C))
    batch = dataset.batch(np.arange(N), C)
    _, prompts, _ = load_reader(recipe(home).reader)
    builder = BatchBuilder(dataset.pack, prompts)
    whole = answer_positions(builder, batch, 8)
    read = builder.answer_spans(batch)
    assert len(read.answers) == len(dataset.pack.span_covers)
    for settings in (prompts.settings, replace(prompts.settings, max_question_tokens=1)):
        tight = Prompts(prompts.tokenizer, replace(settings, max_tokens=128))
        builder = BatchBuilder(dataset.pack, tight)
        assert np.array_equal(answer_positions(builder, batch, 8), whole)
    words = (
        sum(map(len, prompts.words.values())) + 1 + 2 + 1
    )  # with question and title: no text is read
    none = Prompts(prompts.tokenizer, prompts.settings)
    object.__setattr__(none, "settings", _Cut(prompts.settings, words))
    builder = BatchBuilder(dataset.pack, none)
    assert (answer_positions(builder, batch, 8) == NONE).all()


class _Cut:
    """Settings with less room than real ones may have."""

    def __init__(self, settings: PromptSettings, max_tokens: int) -> None:
        self.max_question_tokens = settings.max_question_tokens
        self.max_title_tokens, self.max_tokens = settings.max_title_tokens, max_tokens
        self.number_tokens = settings.number_tokens


def test_a_reader_learns_to_write_the_answers(home: Path) -> None:
    progress = train_reader(recipe(home), home / "out")
    assert progress.best_step > 0
    reader = FusionReader.load(home / "out", device="cpu")
    dataset = open_dataset(DataConfig(str(home / "pack")))
    right = 0
    for question in dataset.usable.tolist():
        answers = reader.read(ranking(dataset, question))
        right += {answer.text for answer in answers} == set(expected(dataset, question, K))
    assert right >= 0.8 * len(dataset.usable)


def ranking(dataset: Dataset, question: int) -> Ranking:
    """A question of the pack with its first passages, as texts."""
    pack = dataset.pack
    asked = " ".join(WORD[int(t)] for t in pack.question_tokens[2 * question : 2 * question + 2])
    hits = []
    for edge in range(question * C, question * C + K):
        words = [WORD[int(t)] for t in pack.passage_tokens[0][4 * edge : 4 * edge + 4]]
        hits.append(Hit(Passage(str(edge), words[0], " ".join(words[1:])), 1.0))
    return Ranking(Question(str(question), asked), tuple(hits))


def test_packs_and_texts_are_read_alike(home: Path) -> None:
    model, prompts, ways = load_reader(recipe(home).reader)
    dataset = open_dataset(DataConfig(str(home / "pack")))
    reading = PackReader(model.eval(), prompts, ways, K)
    builder = BatchBuilder(dataset.pack, prompts)
    reader = FusionReader(model, prompts, ways)
    for batch in dataset.batches(dataset.usable, 5, 2):
        found = write_answers(reading, dataset, builder, batch)
        for question, written in zip(batch.questions.tolist(), found, strict=True):
            (alone,) = reader._written([ranking(dataset, question)])
            assert [one.tokens for one in alone] == [one.tokens for one in written]
            scores = [one.log_prob for one in written]
            assert [one.log_prob for one in alone] == pytest.approx(scores, abs=1e-4)


def test_a_run_that_was_stopped_resumes_to_the_same_weights(home: Path) -> None:
    shape = ["loop.steps=12", "loop.save_every=5", "reader.order=shuffled", "reader.dropout=0.1"]
    train_reader(recipe(home, *shape), home / "whole")
    train_reader(recipe(home, *shape, "loop.steps=5", "loop.decay=flat"), home / "cut")
    whole = recipe(home, *shape, "loop.decay=flat")
    train_reader(whole, home / "cut")
    train_reader(whole, home / "flat")
    files = [(home / name / "model.safetensors").read_bytes() for name in ("cut", "flat")]
    assert files[0] == files[1]


def test_parts_of_a_batch_add_up(home: Path) -> None:
    losses = []
    for micros in (1, 2):
        out = home / f"micros{micros}"
        steps = [f"loop.micro_batches={micros}", "loop.steps=3", "loop.log_every=1"]
        train_reader(recipe(home, *steps), out)
        weights = (out / "model.safetensors").read_bytes()
        losses.append(weights)
    first, second = (np.frombuffer(one[-4000:], dtype=np.float32) for one in losses)
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_a_recipe_with_a_reader_is_a_readers(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        f"[reader]\nweights = {str(home / 't5')!r}\n[loop]\nsteps = 1\n"
        f"[[data]]\npack = {str(home / 'pack')!r}\n",
        encoding="utf-8",
    )
    assert isinstance(read_recipe(path), ReaderTraining)
