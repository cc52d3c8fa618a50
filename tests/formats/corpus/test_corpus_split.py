from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, DataError, FormatError
from jpr.formats.corpus.split import split_wordpieces, split_words
from jpr.types import Passage

LETTERS = "abcdefgh"


def wordpiece() -> Tokenizer:
    """Every word of a to h costs one piece per letter, but for "abc" and "##de"; others one."""
    pieces = ["[UNK]", "[CLS]", "[SEP]", "abc", "##de", "é"]
    pieces += [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def unigram() -> Tokenizer:
    """As T5's: a piece may hold the space before it, so a slice may cost another number."""
    vocabulary = [("<unk>", 0.0), ("▁", -2.0), ("▁a", -1.0), ("bc", -1.0), ("▁ab", -3.0)]
    letters = [(letter, -4.0) for letter in LETTERS]
    tokenizer = Tokenizer(models.Unigram([*vocabulary, *letters], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def bytewise() -> Tokenizer:
    """A piece per byte, as where GPT-2's vocabulary has no merge."""
    vocabulary = {byte: id for id, byte in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


TOKENIZERS = {"wordpiece": wordpiece(), "unigram": unigram(), "bytewise": bytewise()}
texts = st.text(LETTERS + "é ,\n\t\u3000中🐝", max_size=80)


def size(text: str, tokenizer: Tokenizer) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def test_windows_of_words_are_disjoint_and_numbered() -> None:
    passage = Passage("7", "Bees", "a  b\nc d\te", {"source": "x"})
    assert list(split_words(passage, 2)) == [
        Passage("7#0", "Bees", "a b", {"source": "x"}),
        Passage("7#1", "Bees", "c d", {"source": "x"}),
        Passage("7#2", "Bees", "e", {"source": "x"}),
    ]
    assert [piece.id for piece in split_words(passage, 5)] == ["7"]


def test_a_hundred_words_are_one_passage() -> None:
    assert len(list(split_words(Passage("1", "", "word " * 100)))) == 1
    assert len(list(split_words(Passage("1", "", "word " * 101)))) == 2


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_passage_without_words_stays_one(text: str) -> None:
    assert list(split_words(Passage("1", "T", text))) == [Passage("1", "T", "")]
    pieces = split_wordpieces(Passage("1", "T", text), TOKENIZERS["wordpiece"])
    assert list(pieces) == [Passage("1", "T", "")]


@given(texts, st.integers(1, 8))
def test_windows_hold_all_words_in_order(text: str, words: int) -> None:
    pieces = [piece.text.split() for piece in split_words(Passage("1", "", text), words)]
    assert [word for piece in pieces for word in piece] == text.split()
    assert all(len(piece) == words for piece in pieces[:-1])
    assert len(pieces[-1]) <= words


def test_wordpieces_break_between_words() -> None:
    passage = Passage("7", "T", "abc d e  f abc abcd", {"source": "x"})
    pieces = list(split_wordpieces(passage, TOKENIZERS["wordpiece"], 3))
    assert [piece.text for piece in pieces] == ["abc d e", "f abc", "abcd"]
    assert [piece.id for piece in pieces] == ["7#0", "7#1", "7#2"]
    assert {(piece.title, *piece.meta.values()) for piece in pieces} == {("T", "x")}


def test_only_a_word_over_the_limit_is_cut() -> None:
    passage = Passage("7", "", "a bcdefgh a")
    pieces = split_wordpieces(passage, TOKENIZERS["wordpiece"], 3)
    assert [piece.text for piece in pieces] == ["a", "bcde", "fgh", "a"]


def test_the_limit_of_the_paper_is_288_without_special_tokens() -> None:
    assert len(list(split_wordpieces(Passage("1", "", "a " * 288), wordpiece()))) == 1
    assert len(list(split_wordpieces(Passage("1", "", "a " * 289), wordpiece()))) == 2


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts, limit=st.integers(5, 12))
@example(text="é" * 60, limit=5)
@example(text="ab" * 30 + " ab", limit=5)
def test_pieces_are_slices_within_the_limit(name: str, text: str, limit: int) -> None:
    tokenizer = TOKENIZERS[name]
    pieces = [piece.text for piece in split_wordpieces(Passage("1", "", text), tokenizer, limit)]
    assert all(size(piece, tokenizer) <= limit for piece in pieces)
    at = 0
    for piece in pieces:
        assert not text[at : text.index(piece, at)].strip()
        at = text.index(piece, at) + len(piece)
    assert not text[at:].strip()


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts, limit=st.integers(5, 12))
def test_pieces_hold_all_words_that_fit_whole(name: str, text: str, limit: int) -> None:
    tokenizer = TOKENIZERS[name]
    fitting = " ".join(word for word in text.split() if size(word, tokenizer) <= limit)
    pieces = split_wordpieces(Passage("1", "", fitting), tokenizer, limit)
    assert [word for piece in pieces for word in piece.text.split()] == fitting.split()


def test_a_long_text_without_spaces_takes_linear_time() -> None:
    pieces = list(split_wordpieces(Passage("1", "", "中文" * 50_000), TOKENIZERS["bytewise"], 30))
    assert "".join(piece.text for piece in pieces) == "中文" * 50_000


def test_a_limit_no_character_fits_is_refused() -> None:
    with pytest.raises(DataError, match="one character of passage '7' takes 5 wordpieces; raise"):
        list(split_wordpieces(Passage("7", "", "🐝"), TOKENIZERS["bytewise"], 2))
    with pytest.raises(ConfigError, match="at least one wordpiece, not 0"):
        split_wordpieces(Passage("7", "", "a"), TOKENIZERS["wordpiece"], 0)
    with pytest.raises(ConfigError, match="at least one word, not 0"):
        split_words(Passage("7", "", "a"), 0)


def test_a_tokenizer_that_cuts_is_refused_unless_loaded_by_us(tmp_path: Path) -> None:
    cutting = wordpiece()
    cutting.enable_truncation(4)
    cutting.enable_padding(length=4)
    with pytest.raises(ConfigError, match="open it with read_tokenizer"):
        split_wordpieces(Passage("1", "", "a b c d e f"), cutting)
    cutting.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        pieces = split_wordpieces(Passage("1", "", "a b c d e f"), read_tokenizer(path))
        assert [piece.text for piece in pieces] == ["a b c d e f"]


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b"{}", b'{"model": {"type": "x"}}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(FormatError, match=r"t\.json: .*(not a tokenizer|JSON)"):
        read_tokenizer(tmp_path / "t.json")
    with pytest.raises(FormatError, match=r"tokenizer\.json: .*No such file"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
def test_half_a_character_is_cut_like_any_other(tokenizer: Tokenizer) -> None:
    pieces = [
        piece.text for piece in split_wordpieces(Passage("1", "", "a \ud83d bé"), tokenizer, 6)
    ]
    assert "".join(pieces).replace(" ", "") == "a\ud83dbé"
