"""Readers over a tokenizer of pieces, as T5's: words of several tokens, signs, unknown letters."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from jpr.models.generation import GeneratedAnswer
from jpr.read.generate import placed
from jpr.rerank.answer_text import AnswerLocator
from jpr.rerank.evidence import Vocabulary
from jpr.text import answer_spans
from jpr.types import Hit, Passage

PIECES = ["<unk>", "</s>", "##", "▁", "▁Glen", "n", "▁Quin", "▁York", "shire", ",", "▁Paris", "▁in"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    scores = [(piece, 0.0 if piece == "<unk>" else -float(10 - len(piece))) for piece in PIECES]
    made = Tokenizer(models.Unigram(scores, 0, False))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made


def ids(*pieces: str) -> tuple[int, ...]:
    return tuple(PIECES.index(piece) for piece in pieces)


def test_pieces_that_go_on_with_a_word_are_known(tokenizer: Tokenizer) -> None:
    words = Vocabulary.of(tokenizer)
    inner = {PIECES[at] for at in np.flatnonzero(words.inner)}
    assert inner == {"n", "shire", "<unk>"}
    after = words.continues(np.array(ids("▁Paris", "▁", ",", "▁in")))
    assert after.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("Glenn Quinn in Paris", ids("▁Glen", "n"), "Glenn"),
        ("Glenn Quinn in Paris", ids("▁Glen"), ""),
        ("Glenn Quinn in Paris", ids("n"), ""),
        ("Yorkshire in York", ids("▁York"), "York"),
        ("Paris , York", ids("▁Paris", "▁"), ""),
        ("Paris , York", ids("▁", ",", "▁York"), ", York"),
        ("Glenn東 in York", ids("▁Glen", "n"), ""),
        ("東 in York", ids("<unk>"), ""),
    ],
)
def test_only_whole_words_are_found(
    tokenizer: Tokenizer, text: str, tokens: tuple[int, ...], expected: str
) -> None:
    passage = Passage("1", "", text)
    ((written, spans),) = AnswerLocator(tokenizer).locate(passage, [tokens])
    assert written == expected
    assert [text[first:last] for first, last in spans] == [expected] * bool(expected)
    assert not expected or set(spans) <= set(answer_spans(text, expected))


def test_a_title_supports_only_what_it_has_as_words(tokenizer: Tokenizer) -> None:
    hits = [Hit(Passage("1", "", "in York"), 1.0), Hit(Passage("2", "Yorkshire", "in"), 1.0)]
    places = AnswerLocator(tokenizer)
    (answer,) = placed([GeneratedAnswer(ids("▁York"), -1.0)], hits, places)
    assert [support.passage.id for support in answer.support] == ["1"]
    assert placed([GeneratedAnswer(ids("▁Paris"), -1.0)], hits, places) == ()


def test_a_surname_is_the_answer_with_the_full_name(tokenizer: Tokenizer) -> None:
    hits = [Hit(Passage("1", "", "Glenn Quinn in Paris"), 1.0), Hit(Passage("2", "", "Quinn"), 0.5)]
    name, surname = ids("▁Glen", "n", "▁Quin", "n"), ids("▁Quin", "n")
    written = [GeneratedAnswer(surname, -0.5), GeneratedAnswer(name, -1.0)]
    (answer,) = placed(written, hits, AnswerLocator(tokenizer))
    assert (answer.text, answer.log_prob) == ("Glenn Quinn", -0.5)
    assert [support.spans for support in answer.support] == [((0, 11),), ((0, 5),)]
