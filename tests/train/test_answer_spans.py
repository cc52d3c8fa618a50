from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

import jpr.train.answer_spans
from jpr.train.answer_spans import SpanFinder, spellings
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


def spans(
    tokenizer: Tokenizer, title: str, text: str, names: Sequence[str], *, strict: bool = False
) -> list[tuple[int, int]]:
    """Where the names are in a passage that is not the first."""
    ids = [tokenizer.encode(part).ids for part in ("the", title, text)]
    ends = np.cumsum([len(part) for part in ids])
    finder = SpanFinder(tokenizer, strict=strict)
    tokens = np.array([id for part in ids for id in part], dtype=np.uint16)
    covers, offsets, lengths = finder.find(tokens, ends[None], [names])
    assert not covers.any()
    return list(zip(offsets.tolist(), lengths.tolist(), strict=True))


def test_every_occurrence_title_before_text() -> None:
    made = pieces()
    assert spans(made, "the party", "of art", ["art"]) == [(3, 1)]
    assert spans(made, "the art", "art of art", ["art"]) == [(1, 1), (2, 1), (4, 1)]
    both = ["party", "artist"]
    assert spans(made, "of", "the artist of the party", both) == [(2, 2), (6, 1)]
    assert spans(made, "the", "party", ["the party"]) == []  # nothing spans both
    assert spans(made, "", "", ["art"]) == []


def test_occurrences_do_not_overlap() -> None:
    made = pieces()
    longest = ["the", "the artist of"]
    assert spans(made, "of", "the artist of the party", longest) == [(1, 4), (5, 1)]
    first = ["art of", "of the party"]
    assert spans(made, "", "art of the party of the party", first) == [(0, 2), (4, 3)]
    assert spans(made, "", "of of of of of", ["of of"]) == [(0, 2), (2, 2)]
    assert spans(made, "", "the art", ["art", "art ", "art"]) == [(1, 1)]  # the same tokens


def test_each_passage_has_its_own() -> None:
    finder = SpanFinder(letters())
    tokens = np.array([IDS[letter] for letter in "abcabd"], dtype=np.uint16)
    bounds = np.array([[3, 3, 6], [0, 2, 3], [0, 1, 1], [0, 1, 3]])
    covers, offsets, lengths = finder.find(tokens, bounds, [["a", "d"], ["c"], ["b"], ["b c"]])
    assert covers.tolist() == [0, 0, 1, 3]  # in the third, it is not
    assert offsets.tolist() == [0, 2, 2, 1]
    assert lengths.tolist() == [1, 1, 1, 2]
    assert [len(column) for column in finder.find(tokens, bounds[:0], [])] == [0, 0, 0]


def test_a_word_is_found_whole() -> None:
    made = pieces()
    assert spans(made, "", "artist of art", ["art"]) == [(3, 1)]
    assert spans(made, "artist", "artist", ["art"]) == []
    assert spans(made, "", "of 5°", ["5"]) == [(1, 1)]  # a sign ends a word, whatever its token
    assert spans(made, "of", "art", ["5", "of"], strict=True) == []
    assert spans(made, "of", "art", ["unheard", "", "art " * 256]) == []
    assert spans(made, "of", "unseen", ["unheard"]) == []  # both have the same token


def every(field: str, names: list[str]) -> list[tuple[int, int]]:
    """Step through a field letter by letter, and over each name that is met."""
    found, at = [], 0
    while at < len(field):
        here = max((len(name) for name in names if field.startswith(name, at)), default=0)
        if here:
            found.append((at, here))
        at += here or 1
    return found


@given(st.text("abcd", max_size=4), st.text("abcd", max_size=12), st.lists(st.text("abcd")))
def test_it_is_what_a_search_token_by_token_finds(title: str, text: str, names: list[str]) -> None:
    expected = [*every(title, names), *((len(title) + at, n) for at, n in every(text, names))]
    spaced = [" ".join(part) for part in (title, text, *names)]
    assert spans(letters(), spaced[0], spaced[1], spaced[2:]) == expected


def test_tokens_that_mark_where_words_begin() -> None:
    words = ["[UNK]", "▁art", "ist", ".", "▁of"]
    made = Tokenizer(models.Unigram([(word, -1.0) for word in words], unk_id=0))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    assert spans(made, "of", "artist. art.", ["art"]) == [(4, 1)]


def test_an_expression_gives_what_it_matches_in_the_passage() -> None:
    question = Question("1", "when?", regex="19[0-9]+|in caf\u00e9")
    passage = Passage("1", "Caf\u00e9", "From 1920 to 1930.")
    assert spellings(question, 0, passage) == ["1920", "1930"]
    other = Passage("2", "1950", "In Cafe\u0301, 1950 and in cafe\u0301")
    assert spellings(question, 0, other) == ["1950", "In Cafe\u0301", "in cafe\u0301"]
    both = Question("1", "when?", (("1930", "the thirties"),), regex=question.regex)
    assert spellings(both, 0, passage) == ("1930", "the thirties")


def test_an_expression_that_takes_too_long_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpr.train.answer_spans, "_TIME_LIMIT", 0.02)
    endless = Question("1", "what?", regex=r"(a|a)+$|title")
    assert spellings(endless, 0, Passage("1", "title", "a" * 40 + "!")) == ["title"]
    found = spellings(endless, 0, Passage("1", "", f"title {'a' * 40}!"))
    assert found == ["title"]  # what came before stays
