"""The reader that is the joint model itself: laws by tiny models, sense by the default."""

from collections.abc import Iterable, Iterator, Sequence
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from jpr import (
    DataError,
    JointReranker,
    Pipeline,
    SpanReader,
    evaluate_answers,
    load_questions,
    load_rankings,
)
from jpr.batch import read_to_file
from jpr.decode.answers import Evidence
from jpr.errors import ConfigError
from jpr.evaluation.answers import AnswerF1
from jpr.formats.runs.predictions import load_predictions
from jpr.read.spans import likely
from jpr.rerank.answer_text import AnswerLocator, candidate_answers
from jpr.rerank.merge_answers import merge_answers
from jpr.rerank.order import FirstStageOrder
from jpr.text import answer_spans, normalize_answer
from jpr.types import Answer, Hit, Passage, Prediction, Question, Ranking, Support
from tests.cli.running import EXAMPLE
from tests.rerank.tiny import NAMES, WORDS, hits, ranking, tokenizer, write_pointer

MANY = [ranking(NAMES[i:], str(i)) for i in range(4)]
EMPTY = Ranking(Question("none", "which colour ?"), ())


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> JointReranker:
    folder = write_pointer(tmp_path_factory.mktemp("joint"), answers=True)
    return JointReranker.load(folder, "seq", device="cpu")


@pytest.fixture(scope="module")
def default() -> JointReranker:
    return JointReranker.load(device="cpu", threads=1)


def check_laws(ranking: Ranking, answers: Sequence[Answer]) -> None:
    """Answers are pieces of passages where they say, differ, and come most likely first."""
    given = {hit.passage.id: hit.passage for hit in ranking.hits}
    for answer in answers:
        assert answer.support
        assert any(
            answer.text in one.passage.text or answer.text in one.passage.title
            for one in answer.support
        )
        for support in answer.support:
            assert given[support.passage.id] == support.passage
            for first, last in support.spans:
                written = support.passage.text[first:last]
                assert (first, last) in answer_spans(support.passage.text, written)
                assert len(merge_answers([Answer(written, answer.log_prob), answer])) == 1
    names = [normalize_answer(answer.text) for answer in answers]
    assert len(set(names)) == len(names)
    scores = [answer.log_prob for answer in answers]
    assert scores == sorted(scores, reverse=True)
    assert all(score <= 1e-6 for score in scores)


def test_every_answer_is_where_it_says(joint: JointReranker) -> None:
    reader = SpanReader(joint, min_probability=1e-3)
    for answers, given in zip(reader.read_many(MANY), MANY, strict=True):
        assert answers
        check_laws(given, answers)


def test_fewer_answers_where_more_is_asked_of_them(joint: JointReranker) -> None:
    counts = [len(SpanReader(joint, least).read(MANY[0])) for least in (1e-3, 0.5, 1.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0
    assert len(SpanReader(joint, 1e-3, max_answers=2).read(MANY[0])) == 2


def test_questions_without_passages_have_no_answers(joint: JointReranker) -> None:
    found = list(SpanReader(joint).read_many([EMPTY, MANY[0], EMPTY]))
    assert [bool(answers) for answers in found] == [False, True, False]
    blank = Ranking(MANY[0].question, (Hit(Passage("1", "", ""), 1.0),))
    assert SpanReader(joint).read(blank) == ()


def test_bad_settings_are_reported(joint: JointReranker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="min_probability = 2"):
        SpanReader(joint, 2)
    with pytest.raises(ConfigError, match="max_answers = 0"):
        SpanReader(joint, max_answers=0)
    with pytest.raises(ConfigError, match="does not read answers"):
        SpanReader.load(write_pointer(tmp_path / "mute"), device="cpu")


def test_choosing_and_reading_at_once_is_choosing_and_reading(joint: JointReranker) -> None:
    reader = SpanReader(joint, 1e-3)
    for answers, given in zip(SpanReader(joint, 1e-3, choose=3).read_many(MANY), MANY, strict=True):
        check_laws(joint.rank(given.question, given.hits, 3), answers)
        every = {normalize_answer(a.text): a.log_prob for a in reader.read(given)}
        for answer in answers:  # as likely as with all the candidates
            assert answer.log_prob == pytest.approx(every[normalize_answer(answer.text)], abs=1e-5)


def test_spellings_are_one_answer_as_likely_as_the_likeliest() -> None:
    pink, dotted, blue = (WORDS["pink"],), (WORDS["pink"], WORDS["."]), (WORDS["blue"],)
    given = [
        Hit(Passage("1", "", "which pink . pink"), 1.0),
        Hit(Passage("2", "pink", "blue"), 0.5),
        Hit(Passage("3", "", "pink gold"), 0.1),
    ]
    holds = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 0]], dtype=np.bool_)
    found = candidate_answers(
        Evidence((pink, dotted, blue), holds.astype(np.float32), holds),
        np.array([0.4, 0.2, 0.3]),
        given,
        [1, 0],
        AnswerLocator(tokenizer()),
    )
    assert [(answer.text, round(exp(answer.log_prob), 3)) for answer in found] == [
        ("pink", 0.4),
        ("blue", 0.3),
    ]
    supports = [(one.passage.id, one.spans) for one in found[0].support]
    assert supports == [("2", ()), ("1", ((6, 12), (13, 17)))]


def test_answers_with_a_fifth_of_the_likeliest_ones_odds_are_given() -> None:
    def given(*chances: float, least: float | None = None) -> int:
        answers = [Answer(f"answer {at}x", log(p)) for at, p in enumerate(chances)]
        return len(likely(answers, least))

    assert given(0.9, 0.7, 0.6) == 2  # odds 9, 2.33 and 1.5
    assert given(*[0.6] * 9) == 9  # a list
    assert given(1.0, 0.5) == 1
    assert given(0.2, 0.06, 0.04) == 2  # odds 0.25, 0.064 and 0.042
    assert given(0.04, 0.03) == given() == 0  # nothing is likely
    assert given(0.9, 0.7, 0.6, least=0.5) == 3
    assert given(0.04, 0.03, least=0.035) == 1


def places() -> AnswerLocator:
    return AnswerLocator(tokenizer())


def test_a_title_with_the_letters_of_an_answer_inside_a_word_does_not_support_it() -> None:
    passage = Passage("1", "reddish", "blue")
    assert list(places().locate(passage, [(WORDS["red"],), (WORDS["blue"],)])) == [
        ("", ()),
        ("blue", ((0, 4),)),
    ]


def test_half_characters_do_not_hurt(default: JointReranker) -> None:
    ranking = Ranking(
        Question("1", "Who played Mark?"),
        (Hit(Passage("1", "\ud800", "\ud800 Ames McNamara"), 1.0),),
    )
    check_laws(ranking, SpanReader(default).read(ranking))
    assert list(places().locate(Passage("1", "", "\ud800 red"), [(WORDS["red"],)])) == [
        ("red", ((2, 5),))
    ]


def test_what_the_model_has_no_token_for_is_no_answer(default: JointReranker) -> None:
    texts = (
        "Her favourite emoji is 🎸 .",
        "His favourite emoji is 🎹 .",
        "Hers is Beyonce\u0301 .",
    )
    hits = tuple(Hit(Passage(str(i), "", text), 1.0) for i, text in enumerate(texts))
    given = Ranking(Question("1", "which emoji?"), hits)
    answers = SpanReader(default, 1e-4).read(given)
    assert not [answer.text for answer in answers if {"🎸", "🎹"} & set(answer.text)]
    check_laws(given, answers)  # the accent belongs to what it is on


def test_of_nested_answers_the_likelier_stays(joint: JointReranker) -> None:
    chances = {"Bahamian dollar": 0.5, "dollar": 0.3, "gold": 0.2, "gold dollar": 0.16, "x": 0.1}
    answers = [Answer(text, log(share)) for text, share in chances.items()]
    kept = SpanReader(joint, 0.15).select(answers)
    assert [answer.text for answer in kept] == ["Bahamian dollar", "gold"]


def test_a_part_of_a_likelier_answer_stays_if_a_passage_mentions_it_alone() -> None:
    inside, alone = (
        Passage("1", "", "The Bahamian dollar."),
        Passage("2", "", "A dollar, from 1999–2003."),
    )

    def said(text: str, share: float, *passages: Passage) -> Answer:
        found = (Support(one, tuple(answer_spans(one.text, text))) for one in passages)
        return Answer(text, log(share), tuple(found))

    years = [said("1999–2003", 0.4, alone), said("1999", 0.3, alone)]
    long = said("Bahamian dollar", 0.5, inside)
    for passages, kept in (((inside,), 2), ((inside, alone), 3)):
        answers = [long, years[0], said("dollar", 0.35, *passages), years[1]]
        assert likely(answers) == tuple(answers[:kept])


class Fixed:
    """A retriever that always finds the same."""

    def retrieve(self, question: Question, k: int) -> Ranking:
        return Ranking(question, tuple(hits(NAMES))[:k])

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        return (self.retrieve(question, k) for question in questions)


def test_a_pipeline_answers(joint: JointReranker, tmp_path: Path) -> None:
    reader = SpanReader(joint, 1e-3)
    outcome = Pipeline(Fixed(), joint, reader, k=3, candidates=8).ask("which colour ?")
    assert len(outcome.ranking.hits) == 3
    check_laws(outcome.ranking, outcome.answers)
    in_turn = Pipeline(Fixed(), FirstStageOrder(), reader, k=2).ask("which colour ?")
    assert [hit.passage.id for hit in in_turn.ranking.hits] == NAMES[:2]
    assert in_turn.answers == reader.read(Fixed().retrieve(Question("1", "which colour ?"), 2))
    with pytest.raises(DataError, match="no text"):
        Pipeline(Fixed(), joint, reader).ask(" ")
    with pytest.raises(ConfigError, match="k = 9 of 3 candidates"):
        Pipeline(Fixed(), joint, reader, k=9, candidates=3)


def test_the_default_finds_both_actors_of_mark(default: JointReranker) -> None:
    run = {ranking.question.id: ranking for ranking in load_rankings(EXAMPLE / "joint.jsonl")}
    answers = SpanReader(default).read(run["mark-on-roseanne"])
    check_laws(run["mark-on-roseanne"], answers)
    assert {answer.text for answer in answers} >= {"Glenn Quinn", "Ames McNamara"}


def test_files_can_be_scored(default: JointReranker, tmp_path: Path) -> None:
    rankings = list(load_rankings(EXAMPLE / "joint.jsonl"))
    out = tmp_path / "answers.jsonl"
    read_to_file(SpanReader(default), rankings, out)
    found = load_predictions(out)
    assert [one.id for one in found] == [ranking.question.id for ranking in rankings]
    asked = load_questions(EXAMPLE / "questions.jsonl")
    nothing = [Prediction(question.id, ()) for question in asked]
    scored = evaluate_answers(asked, {"spans": found, "none": nothing}, [AnswerF1])
    assert scored.scores(scored.run("spans"))[0].value > 0.5
