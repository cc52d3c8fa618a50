from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from jpr.encode.encoder_settings import EncoderSettings
from jpr.encode.tokenizer import EncoderTokenizer, open_tokenizer
from jpr.errors import FormatError
from jpr.types import Passage
from tests.encode.tiny import ID, VOCABULARY, tiny_tokenizer, write_tokenizer

TOKENIZER = tiny_tokenizer()


def tokens(folder: Path, **settings: object) -> EncoderTokenizer:
    write_tokenizer(folder)
    opened, file = open_tokenizer(folder)
    return EncoderTokenizer(opened, EncoderSettings(**settings), file)  # type: ignore[arg-type]


def words(ids: list[int]) -> str:
    return " ".join(VOCABULARY[i] for i in ids)


def test_title_and_text_are_joined_by_a_full_stop(tmp_path: Path) -> None:
    (ids,) = tokens(tmp_path).tokenize_passages([Passage("1", "Old Castle", "Where is the river?")])
    assert words(ids) == "[CLS] old castle . where is the river ? [SEP]"


def test_without_a_title_there_is_nothing_to_join(tmp_path: Path) -> None:
    assert words(tokens(tmp_path).tokenize_passages([Passage("1", "", "rivers")])[0]) == (
        "[CLS] river ##s [SEP]"
    )


def test_title_and_whole_have_limits(tmp_path: Path) -> None:
    made = tokens(tmp_path, max_title_tokens=3, max_passage_tokens=9, max_question_tokens=4)
    (ids,) = made.tokenize_passages([Passage("1", "the old old old castle", "river " * 50)])
    assert words(ids) == "[CLS] the old old . river river river [SEP]"
    assert words(made.tokenize_questions(["where is the tower?"])[0]) == "[CLS] where is [SEP]"


def test_prompts_and_separators(tmp_path: Path) -> None:
    made = tokens(
        tmp_path, question_prompt="query: ", passage_prompt="passage: ", title_joint="[SEP]"
    )
    assert words(made.tokenize_questions(["tower"])[0]) == "[CLS] query : tower [SEP]"
    (ids,) = made.tokenize_passages([Passage("1", "tower", "old")])
    assert words(ids) == "[CLS] passage : tower [SEP] old [SEP]"


def test_odd_texts_have_tokens_too(tmp_path: Path) -> None:
    made = tokens(tmp_path, max_passage_tokens=8)
    empty, half, long = made.tokenize_passages(
        [Passage("1", "", ""), Passage("2", "", "river \ud800"), Passage("3", "", "river " * 10**6)]
    )
    assert words(empty) == "[CLS] [SEP]"
    assert words(half) == "[CLS] river [UNK] [SEP]" or words(half) == "[CLS] river [SEP]"
    assert len(long) == 8


def test_a_vocabulary_will_do(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    opened, file = open_tokenizer(tmp_path)
    made = EncoderTokenizer(opened, EncoderSettings(), file)
    assert words(made.tokenize_questions(["Where is the OLD castle?"])[0]) == (
        "[CLS] where is the old castle ? [SEP]"
    )


def test_a_vocabulary_with_capitals_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCABULARY, "River"]) + "\n")
    opened, file = open_tokenizer(tmp_path)
    ids = EncoderTokenizer(opened, EncoderSettings(), file).tokenize_questions(["River river"])[0]
    assert ids == [ID["[CLS]"], len(VOCABULARY), ID["river"], ID["[SEP]"]]


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        open_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match=r"tokenizer\.json: .*not a tokenizer"):
        open_tokenizer(tmp_path)


def test_mpnet_has_tokens_of_its_own(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    opened, file = open_tokenizer(tmp_path)
    opened.add_special_tokens(["<s>", "</s>"])
    ids = EncoderTokenizer(opened, EncoderSettings(), file).tokenize_questions(["tower"])[0]
    assert ids == [len(VOCABULARY), ID["tower"], len(VOCABULARY) + 1]


@given(st.text(max_size=80), st.text(max_size=200), st.integers(3, 20))
def test_every_passage_is_framed_and_within_its_limit(title: str, text: str, limit: int) -> None:
    made = EncoderTokenizer(
        TOKENIZER, EncoderSettings(max_passage_tokens=limit), Path("tokenizer.json")
    )
    (ids,) = made.tokenize_passages([Passage("1", title, text)])
    assert (ids[0], ids[-1]) == (ID["[CLS]"], ID["[SEP]"])
    assert len(ids) <= limit


def test_a_tokenizer_of_another_family_is_refused(tmp_path: Path) -> None:
    other = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    with pytest.raises(FormatError, match=r"\[CLS\]"):
        EncoderTokenizer(other, EncoderSettings(), tmp_path)
