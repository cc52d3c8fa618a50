from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

import jpr.train.spans
from jpr.train.pack import NO_SPAN
from jpr.train.spans import SpanFinder, spellings
from jpr.types import Passage, Question

PIECES = ["[UNK]", "art", "##ist", "##°", "the", "party", "5", "##'", "of", "five"]
IDS = {"a": 0x0101, "b": 0x0100, "c": 0x0001, "d": 0x0000, "[UNK]": 2}
"""Halves of some are halves of others."""


def pieces() -> Tokenizer:
    words = {word: i for i, word in enumerate(PIECES)}
    made = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def letters() -> Tokenizer:
    made = Tokenizer(models.WordLevel(IDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def span(
    tokenizer: Tokenizer, title: str, text: str, names: Sequence[str], *, strict: bool = False
) -> tuple[int, int] | None:
    """Where one of the names is in a passage that is not the first."""
    ids = [tokenizer.encode(part).ids for part in ("the", title, text)]
    ends = np.cumsum([len(part) for part in ids])
    finder = SpanFinder(tokenizer, strict=strict)
    tokens = np.array([id for part in ids for id in part], dtype=np.uint16)
    offsets, lengths = finder.find(tokens, ends[None], [names])
    return None if offsets[0] == NO_SPAN else (int(offsets[0]), int(lengths[0]))


def test_the_first_occurrence_title_before_text() -> None:
    made = pieces()
    assert span(made, "the party", "of art", ["art"]) == (3, 1)
    assert span(made, "the art", "art of", ["art"]) == (1, 1)
    assert span(made, "of", "the artist of the party", ["party", "artist"]) == (2, 2)
    assert span(made, "of", "the artist of the party", ["the", "the artist of"]) == (1, 4)
    assert span(made, "the", "party", ["the party"]) is None  # nothing spans both
    assert span(made, "", "", ["art"]) is None


def test_a_word_is_found_whole() -> None:
    made = pieces()
    assert span(made, "", "artist of art", ["art"]) == (3, 1)
    assert span(made, "artist", "artist", ["art"]) is None
    assert span(made, "", "of 5°", ["5"]) == (1, 1)  # a sign ends a word, whatever its token
    assert span(made, "of", "art", ["5", "of"], strict=True) is None
    assert span(made, "of", "art", ["unheard", "", "art " * 256]) is None
    assert span(made, "of", "unseen", ["unheard"]) is None  # both have the same token


@given(st.text("abcd", max_size=4), st.text("abcd", max_size=12), st.lists(st.text("abcd")))
def test_it_is_what_a_search_token_by_token_finds(title: str, text: str, names: list[str]) -> None:
    found = []
    for name in filter(None, names):
        for part, before in ((title, 0), (text, len(title))):
            if name in part:
                found.append((before + part.index(name), -len(name)))
    wanted = min(found, default=None)
    spaced = [" ".join(part) for part in (title, text, *names)]
    got = span(letters(), spaced[0], spaced[1], spaced[2:])
    assert got == (wanted and (wanted[0], -wanted[1]))


def test_tokens_that_mark_where_words_begin() -> None:
    words = ["[UNK]", "▁art", "ist", ".", "▁of"]
    made = Tokenizer(models.Unigram([(word, -1.0) for word in words], unk_id=0))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    assert span(made, "of", "artist. art.", ["art"]) == (4, 1)


def test_an_expression_gives_what_it_matches_in_the_passage() -> None:
    question = Question("1", "when?", regex="19[0-9]+|in caf\u00e9")
    passage = Passage("1", "Caf\u00e9", "From 1920 to 1930.")
    assert spellings(question, 0, passage) == ["1920"]
    assert spellings(question, 0, Passage("2", "1950", "In Cafe\u0301")) == [
        "1950",
        "In Cafe\u0301",
    ]
    both = Question("1", "when?", (("1930", "the thirties"),), regex=question.regex)
    assert spellings(both, 0, passage) == ("1930", "the thirties")


def test_an_expression_that_takes_too_long_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpr.train.spans, "_TIME_LIMIT", 0.02)
    endless = Question("1", "what?", regex=r"(a|a)+$|title")
    assert spellings(endless, 0, Passage("1", "title", "a" * 40 + "!")) == ["title"]
