"""The reader that writes: real tiny T5s, whose answers are nonsense but grounded nonsense."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jpr.errors import DataError, FormatError
from jpr.models.config import T5Config
from jpr.models.generation import GenerateOptions
from jpr.models.t5 import T5
from jpr.read.generate import FusionReader, write_reader
from jpr.read.load import load_reader
from jpr.read.spans import SpanReader
from jpr.rerank.prompt import PromptSettings
from jpr.types import Hit, Passage, Question, Ranking
from tests.damage import without_sums
from tests.read.test_spans import check_laws
from tests.rerank.tiny import NAMES, NUMBER_TOKENS, WORDS, ranking, tokenizer, write_pointer

MANY = [ranking(NAMES[i : i + 4], str(i)) for i in range(5)]
SETTINGS = PromptSettings("t5", number_tokens=NUMBER_TOKENS[:1])
WAYS = GenerateOptions(NUMBER_TOKENS[1], 12, stop_penalty=2.0)


def write_tiny(folder: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = replace(
        T5Config(len(WORDS), 16, 8, 32, 1, 2, 1),
        eos_token_id=WORDS["</s>"],
        pad_token_id=WORDS["[PAD]"],
        tie_word_embeddings=False,  # with the same words in and out it would only repeat itself
    )
    model = T5(config)
    model.encoder.words.weight.data *= 3
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    write_reader(folder, model, SETTINGS, WAYS)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("reader"))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_stands_in_the_passages(tmp_path: Path, seed: int, width: int) -> None:
    reader = FusionReader.load(write_tiny(tmp_path, seed), width=width, device="cpu")
    for answers, given in zip(reader.read_many(MANY), MANY, strict=True):
        assert answers
        check_laws(given, answers)


def test_a_batch_reads_as_each_question_by_itself(folder: Path) -> None:
    reader = FusionReader.load(folder, device="cpu")
    for answers, given in zip(reader.read_many(MANY), MANY, strict=True):
        alone = reader.read(given)
        assert [a.text for a in alone] == [a.text for a in answers]
        scores = [a.log_prob for a in answers]
        assert [a.log_prob for a in alone] == pytest.approx(scores, abs=1e-4)


def test_freely_it_may_write_what_no_passage_has(tmp_path: Path) -> None:
    found = []
    for seed in (0, 5):  # whose answers come to an end
        home = write_tiny(tmp_path / str(seed), seed)
        reader = FusionReader.load(home, is_grounded=False, stop_penalty=0.0, device="cpu")
        found += [answer for answers in reader.read_many(MANY) for answer in answers]
    assert any(not answer.support for answer in found)


def test_nothing_to_read_gives_no_answers(folder: Path) -> None:
    reader = FusionReader.load(folder, device="cpu")
    blank = Ranking(Question("b", "which colour ?"), (Hit(Passage("1", "", " "), 1.0),))
    empty = Ranking(Question("e", "which colour ?"), ())
    found = [bool(one) for one in reader.read_many([empty, MANY[0], blank])]
    assert found == [False, True, False]
    with pytest.raises(DataError, match="has no text"):
        reader.read(Ranking(Question("q", " "), MANY[0].hits))
    foreign = Ranking(Question("f", "どの色？"), MANY[0].hits)
    check_laws(foreign, reader.read(foreign))


def test_a_passage_longer_than_a_prompt_is_read_to_its_end(folder: Path) -> None:
    reader = FusionReader.load(folder, device="cpu")
    texts = {size: "unheard " * size + NAMES[0] for size in (10, 500, 5000)}
    asked = {
        size: Ranking(MANY[0].question, (Hit(Passage("1", "", text), 1.0),))
        for size, text in texts.items()
    }
    for size in (10, 500):
        (answer,) = reader.read(asked[size])
        assert (answer.text, answer.support[0].spans) == (
            NAMES[0], ((8 * size, 8 * size + len(NAMES[0])),)
        )  # fmt: skip
    with pytest.warns(UserWarning, match="were cut"):
        assert reader.read(asked[5000]) == ()


def test_folders_are_recognised(folder: Path, tmp_path: Path) -> None:
    assert isinstance(load_reader(folder, device="cpu"), FusionReader)
    joint = write_pointer(tmp_path / "joint", answers=True)
    assert isinstance(load_reader(joint, device="cpu"), SpanReader)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"kind": "joint"}, "is of kind 'joint'"),
        ({"ways": {"longest": 9}}, "its ways"),
        ({"ways": {"separator": 1, "width": "wide"}}, "width = 'wide'"),
        ({"prompt": None}, "prompt"),
    ],
)
def test_a_damaged_description_is_reported(
    tmp_path: Path, change: dict[str, object], fact: str
) -> None:
    home = write_tiny(tmp_path)
    about = without_sums(home / "reader.json")
    (home / "reader.json").write_text(json.dumps({**about, **change}), encoding="utf-8")
    with pytest.raises(FormatError, match=fact):
        FusionReader.load(home, device="cpu")
