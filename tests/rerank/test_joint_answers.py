"""Rerankers over models that read answers: the same choices without torch, and what answers do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from jpr.decode.answers import Evidence
from jpr.decode.search import chosen_passages
from jpr.encode.tokenizer import read_tokenizer
from jpr.io.atomic import publish_folder
from jpr.rerank.evidence import Vocabulary, find_evidence
from jpr.rerank.joint import JointReranker, model_input
from jpr.rerank.onnx_scorer import OnnxScorer
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.rerank.save import export_joint
from jpr.rerank.scorer import Scorer
from jpr.rerank.torch_scorer import TorchScorer
from jpr.types import DECODERS, Hit, Passage, Ranking
from tests.damage import without_sums
from tests.rerank.tiny import NAMES, QUESTION, ranking, write_pointer, write_t5

WRITERS: dict[str, Callable[[Path, int], Path]] = {
    "bert": lambda folder, seed: write_pointer(folder, seed, answers=True),
    "t5": lambda folder, seed: write_t5(folder, "pointer", seed, answers=True),
}
MANY = [ranking(NAMES[i:], str(i)) for i in range(3)]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=WRITERS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in torch under `torch`, and in ONNX of 32 bits under `onnx`."""
    folder = tmp_path_factory.mktemp(request.param)
    with publish_folder(folder / "onnx") as made:
        export_joint(WRITERS[request.param](folder / "torch", 0), made, [])
    return folder


def of_texts(*texts: str) -> Ranking:
    """Candidates without titles."""
    hits = (Hit(Passage(str(i), "", text), -float(i)) for i, text in enumerate(texts))
    return Ranking(QUESTION, tuple(hits))


def chosen(reranker: JointReranker, given: Ranking, k: int) -> list[int]:
    return [int(hit.passage.id) for hit in reranker.rank(given.question, given.hits, k).hits]


def read(folder: Path, scorer: Scorer, given: Ranking) -> Evidence:
    """What a model takes for the answers of some candidates."""
    prompts = Prompts(read_tokenizer(folder / "tokenizer.json"), read_prompt_settings(folder))
    (passages,) = scorer.open([model_input(prompts, scorer.index_tokens, given)]).passages or ()
    return find_evidence(passages, Vocabulary.of(prompts.tokenizer))


@pytest.mark.parametrize("decoder", DECODERS)
def test_both_ways_choose_the_same(home: Path, decoder: str) -> None:
    here = JointReranker.load(home / "onnx", decoder, device="cpu", threads=1)
    there = JointReranker.load(home / "torch", decoder, device="cpu")
    for ours, theirs in zip(here.decode_many(MANY, 4), there.decode_many(MANY, 4), strict=True):
        assert chosen_passages(ours.nodes) == chosen_passages(theirs.nodes)
        scores = [[node.score for node in choice.nodes] for choice in (ours, theirs)]
        np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)


def test_both_ways_find_the_same_answers(home: Path) -> None:
    given = of_texts("red which red blue", "", "blue", "which colour ?", "")
    ours = read(home / "onnx", OnnxScorer(home / "onnx", {}, 1), given)
    theirs = read(home / "torch", TorchScorer.load(home / "torch", {}, "cpu"), given)
    assert ours.answers == theirs.answers
    assert len(ours.answers) > 3
    np.testing.assert_allclose(ours.probs, theirs.probs, atol=1e-4)
    assert np.array_equal(ours.contains, theirs.contains)


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_passages_without_text_are_ranked_too(home: Path, kind: str) -> None:
    reranker = JointReranker.load(home / kind, device="cpu")
    assert set(chosen(reranker, of_texts("", "red", ""), 3)) == {0, 1, 2}
    assert set(chosen(reranker, of_texts("", ""), 5)) == {0, 1}
    assert chosen(reranker, of_texts(""), 1) == [0]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_of_twins_and_another_one_of_each_is_chosen(
    write: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    given, alone = of_texts("red pink", "red pink", "blue gold"), set()
    for seed in range(6):
        folder = write(tmp_path / str(seed), seed)
        reranker = JointReranker.load(folder, "seq", device="cpu")
        assert 2 in chosen(reranker, given, 2)
        alone |= {2 in chosen(JointReranker.load(folder, "independent", device="cpu"), given, 2)}
    assert False in alone  # by themselves, the twins are best for some models


def test_only_the_independent_decoder_does_not_look_at_answers(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path, answers=True)
    before = {decoder: scores(folder, decoder) for decoder in DECODERS}
    without_sums(folder / "joint.json")
    weights = load_file(folder / "model.safetensors")
    heads = {name: -9 * w for name, w in weights.items() if name.startswith("answers.")}
    assert heads
    save_file({**weights, **heads}, folder / "model.safetensors")
    after = {decoder: scores(folder, decoder) for decoder in DECODERS}
    assert [decoder for decoder in DECODERS if before[decoder] == after[decoder]] == ["independent"]


def scores(folder: Path, decoder: str) -> list[tuple[int, float]]:
    reranker = JointReranker.load(folder, decoder, device="cpu")
    (choice,) = reranker.decode_many([ranking()], 5)
    decoded = choice.nodes
    return [(node.passage, node.score) for node in decoded]
