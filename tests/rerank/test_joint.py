import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from jpr.cli import main
from jpr.decode.search import chosen_passages
from jpr.errors import ConfigError, DataError, FormatError
from jpr.models.joint_checkpoint import read_joint
from jpr.rerank.decoding import Decoding
from jpr.rerank.joint import JointReranker, model_input, random_numbers
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.rerank.scorer import rank_prior
from jpr.rerank.torch_scorer import TorchScorer
from jpr.types import Hit, Passage, Question, Ranking
from tests.cli.running import jpr
from tests.damage import without_sums
from tests.rerank.tiny import (
    NAMES,
    NUMBER_TOKENS,
    QUESTION,
    WORDS,
    hits,
    ranking,
    tokenizer,
    write_pointer,
    write_t5,
)

Write = Callable[[Path], Path]
WRITERS: dict[str, Write] = {
    "pointer over bert": write_pointer,
    "pointer over t5": lambda folder: write_t5(folder, "pointer"),
    "index over t5": lambda folder: write_t5(folder, "index"),
}
every_model = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())


def with_decoding(folder: Path, decoding: Decoding) -> JointReranker:
    model = read_joint(folder)
    return JointReranker(TorchScorer(model), Prompts(tokenizer(), PromptSettings()), decoding)


@every_model
@pytest.mark.parametrize("decoder", ["tree", "seq", "beam", "independent"])
def test_k_candidates_come_back_untouched(tmp_path: Path, write: Write, decoder: str) -> None:
    reranker = JointReranker.load(write(tmp_path), decoder)
    found = reranker.rank(QUESTION, hits(NAMES), 4)
    given = {hit.passage.id: hit.passage for hit in hits(NAMES)}
    assert len({hit.passage.id for hit in found.hits}) == 4
    assert all(hit.passage == given[hit.passage.id] for hit in found.hits)
    scores = [hit.score for hit in found.hits]
    assert all(a > b for a, b in pairwise(scores))
    assert found.question == QUESTION


@every_model
def test_questions_together_are_ranked_as_alone(tmp_path: Path, write: Write) -> None:
    reranker = JointReranker.load(write(tmp_path))
    many = [ranking(NAMES[i:], str(i)) for i in range(8)] + [ranking([], "none")]
    together = list(reranker.rank_many(many, 3))
    for given, found in zip(many, together, strict=True):
        alone = reranker.rank(given.question, given.hits, 3)
        assert [h.passage.id for h in found.hits] == [h.passage.id for h in alone.hits]
    assert [len(found.hits) for found in together] == [3] * 8 + [0]


@pytest.mark.parametrize("write", [write_pointer, WRITERS["pointer over t5"]])
def test_a_pointer_chooses_the_same_in_whatever_order_candidates_come(
    tmp_path: Path, write: Write
) -> None:
    reranker = JointReranker.load(write(tmp_path))
    forth = reranker.rank(QUESTION, hits(NAMES), 5)
    back = reranker.rank(QUESTION, hits(NAMES[::-1]), 5)
    assert [h.passage.id for h in forth.hits] == [h.passage.id for h in back.hits]


def test_one_candidate_more_than_there_are_and_none(tmp_path: Path) -> None:
    reranker = JointReranker.load(write_pointer(tmp_path))
    assert len(reranker.rank(QUESTION, hits(NAMES), 99).hits) == len(NAMES)
    assert [h.passage.id for h in reranker.rank(QUESTION, hits(["red"]), 5).hits] == ["red"]
    assert reranker.rank(QUESTION, [], 5).hits == ()
    assert reranker.rank(QUESTION, hits(NAMES), 0).hits == ()


def test_strange_texts_are_ranked_too(tmp_path: Path) -> None:
    reranker = JointReranker.load(write_pointer(tmp_path))
    odd = [
        Hit(Passage("empty", "", ""), 1.0),
        Hit(Passage("long", "red " * 999, "x" * 99_999), 0.5),
    ]
    long = Question("q", "which colour ? " * 7_000)
    with pytest.warns(UserWarning, match="were cut"):
        assert len(reranker.rank(long, odd, 2).hits) == 2
    with pytest.raises(DataError, match="no text"):
        reranker.rank(Question("q", " "), hits(NAMES), 2)


def test_a_token_budget_instead_of_k(tmp_path: Path) -> None:
    reranker = with_decoding(write_pointer(tmp_path), Decoding(budget=40))
    reply = next(reranker.decode_many([ranking()], 10))
    tokens = [len(p.ids) for p in Prompts(tokenizer(), PromptSettings()).build(
        QUESTION.text, [h.passage for h in ranking().hits], range(10))]  # fmt: skip
    assert 1 <= len(reply.ranking.hits) < 10
    assert sum(tokens[p] for p in chosen_passages(reply.nodes)) <= 40


def test_a_threshold_adapts_k_to_the_question(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path)
    every = next(with_decoding(folder, Decoding()).decode_many([ranking()], 10)).nodes
    limit = sorted(node.score for node in every)[-3]
    some = with_decoding(folder, Decoding(threshold=limit)).rank(QUESTION, hits(NAMES), 10)
    assert 1 <= len(some.hits) < 10


def test_prompts_are_as_the_page_says() -> None:
    words = {i: word for word, i in WORDS.items()}
    passage = Passage("1", "red", "blue")
    (bert,) = Prompts(tokenizer(), PromptSettings()).build("which ?", [passage], [0])
    assert " ".join(words[i] for i in bert.ids) == "[CLS] which ? [SEP] red . blue [SEP]"
    assert bert.mark == 0
    numbered = Prompts(tokenizer(), PromptSettings("t5", number_tokens=NUMBER_TOKENS))
    (t5,) = numbered.build("which ?", [passage], [3])
    text = "question : which ? index : <3> title : red context : blue </s>"
    assert " ".join(words[i] for i in t5.ids) == text
    assert words[t5.ids[t5.mark]] == "<3>"
    with pytest.raises(ConfigError, match=r"13 candidates.*12 index tokens"):
        numbered.build("which ?", [passage], [12])


def test_an_index_head_gets_numbers_that_say_nothing_of_ranks() -> None:
    prompts = Prompts(tokenizer(), PromptSettings("t5", number_tokens=NUMBER_TOKENS))
    (of_ten, again) = (model_input(prompts, len(NUMBER_TOKENS), ranking()) for _ in range(2))
    assert of_ten == again
    numbers = [one.number for one in of_ten]
    assert len(set(numbers)) == 10
    assert numbers != sorted(numbers)
    tokens = [NUMBER_TOKENS[number] for number in numbers]
    assert [one.ids[one.mark] for one in of_ten] == tokens
    prior = rank_prior(of_ten).tolist()  # this is by rank
    assert prior == sorted(set(prior), reverse=True)
    firsts = [random_numbers(2, 12, f"question {i}\ud800")[0] for i in range(1200)]
    assert all(60 < firsts.count(number) < 140 for number in range(12))


def test_a_pointer_sees_no_numbers() -> None:
    prompts = Prompts(tokenizer(), PromptSettings("t5", number_tokens=NUMBER_TOKENS[:1]))
    asked = model_input(prompts, 0, ranking())
    assert [one.number for one in asked] == list(range(10))
    assert {one.ids[one.mark] for one in asked} == {NUMBER_TOKENS[0]}


def test_more_candidates_than_numbers(tmp_path: Path) -> None:
    reranker = JointReranker.load(write_t5(tmp_path, "index"))
    with pytest.raises(ConfigError, match=r"13 candidates"):
        reranker.rank(QUESTION, hits([*NAMES, "a", "b", "c"]), 5)
    pointer = JointReranker.load(write_t5(tmp_path / "2", "pointer"))
    assert len(pointer.rank(QUESTION, hits([f"n{i}" for i in range(150)]), 5).hits) == 5


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"joint\.json is missing"):
        JointReranker.load(tmp_path)
    file = write_pointer(tmp_path) / "model.safetensors"
    about = without_sums(tmp_path / "joint.json")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"model\.safetensors"):
        JointReranker.load(tmp_path)
    file.write_bytes(whole)
    weights = load_file(file)
    save_file({**weights, "head.start": torch.full((16,), torch.nan)}, file)
    with pytest.raises(FormatError, match=r"head\.start"):
        JointReranker.load(tmp_path)
    save_file({name: w for name, w in weights.items() if name != "head.start"}, file)
    with pytest.raises(FormatError, match=r"head\.start is missing"):
        JointReranker.load(tmp_path)
    (tmp_path / "joint.json").write_text(json.dumps({**about, "kind": "reader"}))
    with pytest.raises(FormatError, match="kind 'reader'"):
        JointReranker.load(tmp_path)
    file.unlink()
    (tmp_path / "joint.json").write_text(json.dumps(about))
    with pytest.raises(FormatError, match=r"neither model\.safetensors nor encoder\.onnx"):
        JointReranker.load(tmp_path)
    with pytest.raises(ConfigError, match="auto, cpu, cuda"):
        JointReranker.load(tmp_path, device="tpu")


def test_the_command_ranks_and_says_how(tmp_path: Path) -> None:
    model = write_pointer(tmp_path / "model")
    run, out, trees = (tmp_path / name for name in ("run.jsonl", "out.jsonl", "trees.jsonl"))
    lines = []
    for id in ("1", "2"):
        ctxs = [
            {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
            for h in hits(NAMES)
        ]
        lines.append(json.dumps({"id": id, "question": "which colour ?", "ctxs": ctxs}))
    run.write_text("\n".join(lines) + "\n")
    jpr("rerank", run, "--model", model, "-o", out, "-k", 3, "--set", "beta=1.0", "--trees", trees)
    chosen = [[c["id"] for c in json.loads(line)["ctxs"]] for line in out.read_text().splitlines()]
    nodes = [json.loads(line)["nodes"] for line in trees.read_text().splitlines()]
    assert [len(ids) for ids in chosen] == [3, 3]
    for ids, of_question in zip(chosen, nodes, strict=True):
        assert [node["passage"] for node in of_question if node["is_new"]] == ids
    expected = JointReranker.load(model, "tree", 1.0).rank(QUESTION, hits(NAMES), 3)
    assert chosen[0] == [hit.passage.id for hit in expected.hits]
    assert isinstance(expected, Ranking)


def test_the_command_reports_what_was_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out = write_pointer(tmp_path / "model", answers=True), tmp_path / "out.jsonl"
    notes = []
    for size in (500, 5000):
        ctxs = [{"id": "1", "title": "", "text": "red " * size, "score": 1.0}]
        lines = (json.dumps({"id": id, "question": "which ?", "ctxs": ctxs}) for id in "abc")
        run = tmp_path / f"{size}.jsonl"
        run.write_text("\n".join(lines) + "\n")
        for command in (["rerank"], ["rerank", "--trees", str(tmp_path / "trees")], ["read"]):
            arguments = [*command, str(run), "--model", str(model), "--out", str(out)]
            monkeypatch.setattr(sys, "argv", ["jpr", *arguments])
            with pytest.raises(SystemExit) as stop:
                main()
            assert not stop.value.code
            notes.append(capsys.readouterr().err.count("were cut"))
    assert notes == [0, 0, 0, 1, 1, 1]  # once for all questions


def test_a_folder_names_how_its_model_chooses(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path / "model")
    assert JointReranker.load(folder, device="cpu").decoding == Decoding("tree", 2.0)
    file = folder / "joint.json"
    about = without_sums(file)
    file.write_text(json.dumps({**about, "decoding": {"decoder": "sets", "beta": -1.0}}))
    assert JointReranker.load(folder, device="cpu").decoding == Decoding("sets", -1.0)
    assert JointReranker.load(folder, "tree", device="cpu").decoding == Decoding("tree", -1.0)
    file.write_text(json.dumps({**about, "decoding": {"decoder": "seq", "beta": 2.0}}))
    with pytest.raises(ConfigError, match="seq"):
        JointReranker.load(folder, beta=4.0, device="cpu")
    for bad in ("seq", {"decoder": "best"}, {"beta": "wide"}):
        file.write_text(json.dumps({**about, "decoding": bad}))
        with pytest.raises(FormatError, match="its decoding is"):
            JointReranker.load(folder, device="cpu")
