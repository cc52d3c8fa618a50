"""What chosen passages add, in words."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from jpr.decode.answers import Evidence
from jpr.decode.conditioning import Conditioned, Observed
from jpr.decode.search import Limits, chosen_passages, decode_many
from jpr.decode.sequences import sequence
from jpr.encode.tokenizer import truncated_tokens
from jpr.rerank.answer_text import AnswerLocator, expected_answers
from jpr.rerank.joint import JointReranker
from jpr.types import ExpectedAnswer, Hit, Passage, Question, Ranking
from tests.rerank.tiny import NAMES, QUESTION, hits, tokenizer, write_pointer

GIVEN = Ranking(
    Question("q", "which?"),
    tuple(
        Hit(Passage(str(i), title, text), 0.0)
        for i, (title, text) in enumerate(
            [("", f"{NAMES[0]} and {NAMES[0]}"), ("", NAMES[0]), (NAMES[1], NAMES[2])]
        )
    ),
)


def evidence() -> Evidence:
    """Candidates 0 and 1 say the first name, candidate 2 the second, which is its title."""
    answers = tuple(tuple(ids) for ids in truncated_tokens(tokenizer(), NAMES[:2], 9))
    says = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    return Evidence(answers, says, says > 0)


def test_each_passage_says_what_it_adds_and_where() -> None:
    first_step, later = np.log([0.5, 0.3, 0.2]), np.log([0.05, 0.05, 0.9])
    model = Conditioned(
        lambda pairs: [later if prefix else first_step for _, prefix in pairs],
        [Observed(evidence())],
    )
    (decoded,) = decode_many([sequence(3, Limits(3))], model)
    assert chosen_passages(decoded) == (0, 2, 1)
    text = GIVEN.hits[0].passage.text
    places = (0, len(NAMES[0])), (len(text) - len(NAMES[0]), len(text))
    found = AnswerLocator(tokenizer())
    first, second, third = (expected_answers(model, 0, node, GIVEN, found) for node in decoded)
    assert first == (ExpectedAnswer(NAMES[0], first[0].probability, first[0].overall, places),)
    assert second == (
        ExpectedAnswer(NAMES[1], second[0].probability, second[0].overall, ()),
    )  # a title
    assert [first[0].probability, second[0].probability] == pytest.approx([0.8, 0.9])
    assert [first[0].overall, second[0].overall] == pytest.approx([0.8 / 1.8, 0.2 / 1.2])
    assert third == ()  # it repeats


def test_places_are_whole_words_without_the_space_before() -> None:
    made = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁light", -1.0), ("house", -1.0)], 0))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    passage = Passage("1", "lighthouse", "lighthouse light")
    found = AnswerLocator(made).locate(passage, [(1,), (1, 2)])
    assert list(found) == [("light", ((11, 16),)), ("lighthouse", ((0, 10),))]


def test_a_reranker_says_it_unless_it_does_not_look_at_answers(tmp_path: Path) -> None:
    folder = write_pointer(tmp_path, answers=True)
    given = [Ranking(QUESTION, tuple(hits(NAMES)))]
    (choice,) = JointReranker.load(folder, "seq", device="cpu").decode_many(given, 3)
    assert len(choice.nodes) == 3
    assert any(node.expected for node in choice.nodes)
    for hit, node in zip(choice.ranking.hits, choice.nodes, strict=True):
        for one in node.expected:
            assert 0 < one.probability <= 1
            assert all(hit.passage.text[slice(*span)] == one.text for span in one.spans[:1])
    for decoder, how in (("independent", "learned"), ("seq", "none")):
        reranker = JointReranker.load(folder, decoder, device="cpu", conditioning=how)
        assert not any(node.expected for node in next(reranker.decode_many(given, 3)).nodes)
