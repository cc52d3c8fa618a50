"""The answers of candidates: facts by hand, and a slow transcription that must agree."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from jpr.decode.answers import Evidence
from jpr.rerank.evidence import SPANS, PassageTokens, Vocabulary, find_evidence

LONGEST = 12
PIECES = ["the", "a", ",", "##bc", "##ist", "art", "red", "blue", "green", "in", "(", ")"]
T5_PIECES = ["▁the", "▁The", "a", "▁a", ",", "▁past", "▁red", "the", "▁"]
Marks = Mapping[tuple[int, int, int], float]


def words(pieces: Sequence[str] = PIECES) -> Vocabulary:
    return Vocabulary.of(
        Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token=pieces[0]))
    )


def marked(texts: Sequence[str], spans: Marks, pieces: Sequence[str] = PIECES) -> PassageTokens:
    """PassageTokens in which only these spans (passage, first, last) may be answers, by logit."""
    ids = [[pieces.index(token) for token in text.split()] for text in texts]
    lengths = np.array([len(of_text) for of_text in ids], dtype=np.int64)
    logits = np.full((int(lengths.sum()), LONGEST), -np.inf, dtype=np.float32)
    starts = lengths.cumsum() - lengths
    for (passage, first, last), logit in spans.items():
        logits[starts[passage] + first, last - first - 1] = logit
    flat = np.array([token for of_text in ids for token in of_text], dtype=np.int64)
    return PassageTokens(flat, lengths, logits)


def answers(found: Evidence, pieces: Sequence[str] = PIECES) -> dict[str, list[int]]:
    """Which candidates hold each answer."""
    named = (" ".join(pieces[token] for token in tokens) for tokens in found.answers)
    return {
        name: np.flatnonzero(held).tolist()
        for name, held in zip(named, found.contains.T, strict=True)
    }


def one(text: str, first: int, last: int, pieces: Sequence[str] = PIECES) -> list[str]:
    """The answer that a span of a text is, if it is one."""
    given_ = marked([text], {(0, first, last): 0.0}, pieces)
    return list(answers(find_evidence(given_, words(pieces)), pieces))


def test_the_same_words_are_one_answer_whoever_has_them() -> None:
    texts = ["red in blue", "the red , in", "blue"]
    found = find_evidence(marked(texts, {(0, 0, 1): 0.0, (1, 0, 3): 0.0}), words())
    assert answers(found) == {"red": [0, 1]}  # "the red ," is red too
    assert found.probs.tolist() == [[0.5], [0.5], [0.0]]


def test_every_span_has_a_probability_of_its_own() -> None:
    spans = {(0, 0, 1): float(np.log(3)), (0, 2, 3): 9.0, (0, 3, 4): 0.0, (0, 4, 5): -1.0}
    found = find_evidence(marked(["red in the green red"], spans), words())
    # "the" is no answer, and of the two that are "red" the more likely one counts
    assert dict(zip(answers(found), found.probs[0].tolist(), strict=True)) == pytest.approx(
        {"red": 3 / 4, "green": 1 / 2}
    )


def test_of_overlapping_spans_the_likelier_is_an_answer() -> None:
    spans = {(0, 0, 1): 1.0, (0, 0, 2): 0.5, (0, 1, 3): 0.0, (0, 3, 4): -1.0}
    found = find_evidence(marked(["red in the green"], spans), words())
    assert answers(found) == {"red": [0], "in": [0], "green": [0]}  # "in the" is apart from "red"


@pytest.mark.parametrize(
    ("text", "span", "answer"),
    [
        ("in the red , in", (1, 4), ["red"]),
        ("the the , ( a red ) ) , , the a", (0, 12), ["red"]),
        ("the a , ( ) , the a , the a ,", (0, 12), []),  # nothing but what stands around
        ("a ##bc red", (0, 2), ["a ##bc"]),  # one word, no article
        ("red a ##bc", (1, 3), ["a ##bc"]),
        ("the a ##bc red", (0, 4), ["a ##bc red"]),
        ("a ##bc red", (0, 1), []),
        ("red a ##bc", (0, 2), ["red"]),
        ("art ##ist in", (0, 1), []),  # no whole words
        ("art ##ist in", (1, 3), []),
        ("art ##ist in", (0, 2), ["art ##ist"]),
        ("in art", (1, 2), ["art"]),  # at the very end
    ],
)
def test_answers_are_whole_words_without_what_is_around(
    text: str, span: tuple[int, int], answer: list[str]
) -> None:
    assert one(text, *span) == answer


@pytest.mark.parametrize(
    ("text", "span", "answer"),
    [
        ("▁The ▁red , ▁red", (0, 3), ["▁red"]),
        ("▁the ▁red ▁a", (0, 3), ["▁red"]),
        ("▁red ▁past a", (1, 3), ["▁past a"]),  # the last token is no article
        ("▁past a ▁red", (0, 1), []),
        ("▁a the ▁red", (0, 2), ["▁a the"]),
        ("▁ a ▁red", (0, 2), ["▁ a"]),
    ],
)
def test_tokens_that_mark_where_words_begin(
    text: str, span: tuple[int, int], answer: list[str]
) -> None:
    assert one(text, *span, T5_PIECES) == answer


def test_a_passage_holds_whole_words_of_its_own() -> None:
    texts = ["art in", "art ##ist", "in", "art", "##bc art"]
    spans = {(0, 0, 1): 0.0, (2, 0, 1): 0.0}
    found = answers(find_evidence(marked(texts, spans), words()))
    assert found == {"art": [0, 3, 4], "in": [0, 2]}  # what follows 3 is of another passage
    both = answers(find_evidence(marked(["red blue", "red", "blue"], {(0, 0, 2): 0.0}), words()))
    assert both == {"red blue": [0]}  # and not 1 and 2 together


def test_answers_of_as_many_tokens_as_spans_have() -> None:
    text = " ".join(["red", "blue"] * 7)
    found = find_evidence(marked([text], {(0, 0, 12): 0.0}), words())
    assert [len(tokens) for tokens in found.answers] == [LONGEST]


@pytest.mark.parametrize("texts", [[""], ["", "", ""], ["red"], ["", "red"], ["red", ""], []])
def test_passages_of_nothing_or_one_word(texts: list[str]) -> None:
    spans = {(i, 0, 1): 0.0 for i, text in enumerate(texts) if text}
    found = find_evidence(marked(texts, spans), words())
    assert answers(found) == ({"red": [texts.index("red")]} if "red" in texts else {})
    assert found.probs.shape == found.contains.shape == (len(texts), len(found.answers))
    assert found.probs.sum() == ("red" in texts) / 2


@pytest.mark.parametrize("last", ["", "red", "red blue"])
def test_a_short_passage_after_a_long_one(last: str) -> None:
    long = " ".join(["green", "in", "blue"] * 50)
    found = find_evidence(marked([long, last], {(1, 0, 1): 0.0} if last else {}), words())
    assert answers(found) == ({"red": [1]} if last else {})


def test_a_model_without_any_idea_of_answers() -> None:
    found = find_evidence(marked(["red in blue", "green"], {}), words())
    assert found.answers == ()
    assert found.probs.shape == (2, 0)


def test_added_tokens_are_known_too() -> None:
    made = Tokenizer(models.WordLevel({"red": 0, "##bc": 1}, unk_token="red"))
    made.add_special_tokens(["<0>"])
    assert len(Vocabulary.of(made).inner) == len(Vocabulary.of(made).ignorable) == 3
    assert Vocabulary.of(made).inner.tolist() == [False, True, False]


@dataclass(frozen=True)
class Case:
    """Random passages over a small vocabulary; no two spans of a passage are equally likely."""

    texts: list[list[int]]
    logits: list[np.ndarray]
    """(n, LONGEST) for each."""
    words: Vocabulary

    def in_order(self, order: Sequence[int]) -> PassageTokens:
        texts, logits = ([those[i] for i in order] for those in (self.texts, self.logits))
        flat = np.array([token for text in texts for token in text], dtype=np.int64)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        return PassageTokens(flat, lengths, np.concatenate(logits).astype(np.float32))

    @property
    def passages(self) -> PassageTokens:
        return self.in_order(range(len(self.texts)))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    chance = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    vocabulary, longest = draw(st.integers(1, 12)), draw(st.integers(0, 24))
    lengths = chance.integers(0, longest + 1, draw(st.integers(1, 5)))
    inner = chance.random(vocabulary) < 0.3
    around = (chance.random(vocabulary) < 0.3) & ~inner
    logits = []
    for n in lengths.tolist():
        spans = chance.permutation(n * LONGEST).reshape(n, LONGEST) / 64.0 - 2
        spans[np.arange(LONGEST) >= n - np.arange(n)[:, None]] = -np.inf
        spans[chance.random(spans.shape) < 0.1] = -np.inf
        logits.append(spans)
    texts = [chance.integers(0, vocabulary, n).tolist() for n in lengths]
    return Case(texts, logits, Vocabulary(inner, around))


def likeliest(logits: np.ndarray, count: int) -> list[tuple[int, int, float]]:
    """Where the likeliest spans of one passage begin and end, and their probabilities."""
    known = {
        (first, first + more + 1): logits[first, more]
        for first, more in zip(*np.nonzero(np.isfinite(logits)), strict=True)
    }
    best = sorted(known, key=lambda span: -known[span])[:count]
    return [(*span, 1 / (1 + np.exp(-known[span]))) for span in best]


def is_inside(text: list[int], place: int, words: Vocabulary) -> bool:
    return 0 < place < len(text) and bool(words.inner[text[place]])


def trimmed(text: list[int], first: int, last: int, words: Vocabulary) -> tuple[int, int]:
    while last > first and words.ignorable[text[last - 1]]:
        last -= 1
    while first < last and words.ignorable[text[first]] and not is_inside(text, first + 1, words):
        first += 1
    return first, last


def is_held(answer: tuple[int, ...], text: list[int], words: Vocabulary) -> bool:
    return any(
        tuple(text[at : at + len(answer)]) == answer
        and not is_inside(text, at, words)
        and not is_inside(text, at + len(answer), words)
        for at in range(len(text) - len(answer) + 1)
    )


def transcribed(case: Case, count: int) -> dict[tuple[int, ...], list[float]]:
    """What each candidate says of each answer, span by span and token by token."""
    says: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0] * len(case.texts))
    for passage, (text, logits) in enumerate(zip(case.texts, case.logits, strict=True)):
        used: set[int] = set()
        for *span, share in likeliest(logits, count):
            first, last = trimmed(text, int(span[0]), int(span[1]), case.words)
            bounds = (is_inside(text, place, case.words) for place in (first, last))
            if first < last and not any(bounds) and used.isdisjoint(range(first, last)):
                used.update(range(first, last))
                own = says[tuple(text[first:last])]
                own[passage] = max(own[passage], share)
    return says


@given(cases(), st.sampled_from([1, 3, SPANS, 500]))
def test_it_is_what_a_transcription_finds(case: Case, count: int) -> None:
    found = find_evidence(case.passages, case.words, count)
    expected = transcribed(case, count)
    assert len(found.answers) == len(expected)
    assert set(found.answers) == expected.keys()
    for number, answer in enumerate(found.answers):
        np.testing.assert_allclose(found.probs[:, number], expected[answer], rtol=1e-4, atol=1e-7)
        held = [is_held(answer, text, case.words) for text in case.texts]
        assert found.contains[:, number].tolist() == held


@given(cases())
def test_a_candidate_holds_what_it_says(case: Case) -> None:
    found = find_evidence(case.passages, case.words)
    assert (found.probs <= 1).all()
    assert found.contains[found.probs > 0].all()
    assert (found.probs > 0).any(axis=0).all()  # somebody says each


@given(cases(), st.data())
def test_candidates_in_another_order_have_the_same_answers(case: Case, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(case.texts))))
    found = find_evidence(case.passages, case.words)
    again = find_evidence(case.in_order(order), case.words)
    assert again.answers == found.answers
    assert np.array_equal(again.probs, found.probs[order])
    assert np.array_equal(again.contains, found.contains[order])
