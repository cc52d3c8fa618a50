from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.errors import ConfigError, DataError
from jpr.text import answer_pattern
from jpr.types import Passage, Question
from recipes.trec import grouping
from recipes.trec.grouping import (
    Dropped,
    Grouped,
    Reason,
    answers_from_matches,
    group_answers,
)

FLIGHT = Question(
    "1434", "Where did the flight begin?", regex=r"Long Island|New\s?York|Roosevelt Field"
)
TEXTS = [
    "He left Roosevelt Field at dawn.",
    "New York, new\xa0york",
    "The sky over New\nYork and NEWYORK.",
    "It is on Long Island.",
]
PLACES = (
    ("roosevelt field",),
    ("new york", "new\xa0york", "new\nyork", "newyork"),
    ("long island",),
)


def passages(*texts: str) -> list[Passage]:
    return [Passage(str(i), "", text) for i, text in enumerate(texts)]


def question(regex: str) -> Question:
    return Question("7", "?", regex=regex)


def outcome(regex: str, *texts: str) -> tuple[tuple[str, ...], ...] | Reason:
    """Return the answers of one question, or why it was dropped."""
    grouped = group_answers([question(regex)], passages(*texts), time_limit=0.1)
    return grouped.questions[0].answers if grouped.questions else grouped.dropped[0].reason


def test_the_paper_example() -> None:
    assert group_answers([FLIGHT], passages(*TEXTS)) == Grouped(
        (Question(FLIGHT.id, FLIGHT.text, PLACES, regex=FLIGHT.regex),), ()
    )


@pytest.mark.parametrize(
    ("matches", "answers"),
    [
        ([spelling for place in PLACES for spelling in place], PLACES),
        (["The Beatles", "beatles", "BEATLES!"], (("the beatles", "beatles", "beatles!"),)),
        (["a b c d e", "a b c d e f", "U.S.A."], (("a b c d e",),)),  # U.S.A. has six tokens
        (["the", "$", "A"], (("the",), ("$",), ("a",))),
        ([" ", "\u200b"], ()),
        (["Bola\u0303o", "Bolão"], (("bolão",),)),
    ],
)
def test_matches_the_same_but_for_white_space_are_one_answer(
    matches: list[str], answers: tuple[tuple[str, ...], ...]
) -> None:
    assert answers_from_matches(matches) == answers


@pytest.mark.parametrize(
    ("regex", "text", "reason"),
    [
        ("Oslo", "Bergen", Reason.NO_MATCH),
        ("x*", "", Reason.NO_MATCH),  # empty matches do not count
        (r"\d+", " ".join(map(str, range(101))), Reason.TOO_MANY),
        ("a .* f", "a b c d e f", Reason.TOO_LONG),
        ("(a|aa)+$", "a" * 60 + "b", Reason.TIMED_OUT),
    ],
)
def test_why_a_question_is_dropped(regex: str, text: str, reason: Reason) -> None:
    dropped = group_answers([question(regex)], passages(text), time_limit=0.02)
    assert dropped == Grouped((), (Dropped("7", reason),))


def test_a_hundred_distinct_matches_are_not_too_many() -> None:
    numbers = [str(n) for n in range(100)]
    assert outcome(r"\d+", " ".join(numbers), "7 8 9") == tuple((n,) for n in numbers)


def test_matches_that_differ_in_case_are_not_distinct() -> None:
    assert outcome("[a-z]{7}", *(f"{'a' * i}X{'a' * (6 - i)}" for i in range(7)), "aaaaaaX") == (
        tuple((f"{'a' * i}x{'a' * (6 - i)}",) for i in range(7))
    )


def test_title_and_text_are_searched_apart() -> None:
    (kept,) = group_answers([question("ada|b.c")], [Passage("1", "Ada b", "c. Ada")]).questions
    assert kept.answers == (("ada",),)


@pytest.mark.parametrize("regex", ["Škoda", r"\Škoda", "S\u030ckoda"])
def test_an_accent_may_be_written_in_any_way(regex: str) -> None:
    assert outcome(regex, "a Škoda", "a S\u030cKODA") == (("škoda",),)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (
            Question("12", "?", regex="(a"),
            r"question '12': '\(a' is not a regular expression: miss",
        ),
        (Question("12", "?", regex="(" * 9999 + ")" * 9999), "question '12'"),
        (Question("12", "?"), "question '12' has no regular expression"),
    ],
)
def test_a_question_without_a_valid_expression_is_named(question: Question, says: str) -> None:
    with pytest.raises(DataError, match=says):
        group_answers([FLIGHT, question], [])


def test_a_backslash_that_is_escaped_is_no_escape() -> None:
    assert answer_pattern(question(r"a\\é")).pattern == "a\\\\e\u0301"


@pytest.mark.parametrize(
    ("workers", "time_limit", "says"),
    [(0, 1.0, "workers must be at least 1, not 0"), (1, 0.0, "time_limit must be more than 0")],
)
def test_options_without_a_meaning(workers: int, time_limit: float, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        group_answers([FLIGHT], [], workers=workers, time_limit=time_limit)


MANY = [FLIGHT, Question("2", "?", regex=r"\w*o\w*"), Question("3", "?", regex="Oslo")]


@pytest.mark.parametrize(("chunk", "workers"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_chunks_and_workers_change_nothing(
    chunk: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = group_answers(MANY, passages(*TEXTS))
    monkeypatch.setattr(grouping, "_CHUNK", chunk)
    assert group_answers(MANY, passages(*TEXTS), workers=workers) == expected


def test_too_many_and_too_long_are_judged_over_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_CHUNK", 1)
    numbers = [" ".join(str(n) for n in range(i, i + 60)) for i in (0, 41)]
    assert outcome(r"\d+", *numbers) is Reason.TOO_MANY
    assert outcome("(a|aa)+$|b", "a" * 60 + "b", "b") is Reason.TIMED_OUT
    assert outcome(r"\d+|(a|aa)+$", *numbers, "a" * 60 + "b") is Reason.TOO_MANY


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Chunks of one passage; the list of those that were scanned."""
    scan: Callable[..., object] = grouping._scan_texts
    calls: list[list[str]] = []

    def counted(patterns: tuple[str, ...], limit: float, texts: list[str]) -> object:
        calls.append(texts)
        return scan(patterns, limit, texts)

    monkeypatch.setattr(grouping, "_CHUNK", 1)
    monkeypatch.setattr(grouping, "_scan_texts", counted)
    return calls


def test_what_was_cached_is_not_scanned_again(tmp_path: Path, scanned: list[list[str]]) -> None:
    first = group_answers(MANY, passages(*TEXTS), cache=tmp_path)
    assert len(scanned) == 4
    assert (
        group_answers(MANY[::-1], passages(*TEXTS), cache=tmp_path).questions
        == first.questions[::-1]
    )
    assert len(scanned) == 4


def test_a_changed_passage_or_expression_is_scanned(
    tmp_path: Path, scanned: list[list[str]]
) -> None:
    group_answers([FLIGHT], passages(*TEXTS), cache=tmp_path)
    del scanned[:]
    changed = [*TEXTS[:2], "Oslo", *TEXTS[3:]]
    (kept,) = group_answers([FLIGHT], passages(*changed), cache=tmp_path).questions
    assert scanned == [["", "Oslo"]]
    assert kept.answers == (PLACES[0], PLACES[1][:2], PLACES[2])
    group_answers([question("Oslo")], passages(*changed), cache=tmp_path)
    assert len(scanned) == 5


def test_a_run_that_was_stopped_continues(tmp_path: Path, scanned: list[list[str]]) -> None:
    def stop(_: int) -> None:
        if len(scanned) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        group_answers([FLIGHT], passages(*TEXTS), cache=tmp_path, progress=stop)
    done: list[int] = []
    (kept,) = group_answers(
        [FLIGHT], passages(*TEXTS), cache=tmp_path, progress=done.append
    ).questions
    assert kept.answers == PLACES
    assert len(scanned) == 4
    assert done == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "damage", ['{"pattern": 0', '{"pattern": 0}', "[]\n1", '{"pattern": "x"}', "\udcff"]
)
def test_a_damaged_cache_is_made_again(
    damage: str, tmp_path: Path, scanned: list[list[str]]
) -> None:
    expected = group_answers([FLIGHT], passages(*TEXTS), cache=tmp_path)
    for path in tmp_path.rglob("*.jsonl"):
        path.write_bytes(damage.encode(errors="surrogateescape"))
    assert group_answers([FLIGHT], passages(*TEXTS), cache=tmp_path) == expected
    assert len(scanned) == 8
