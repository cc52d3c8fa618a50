import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.coverage import Coverage, cover, cover_by_ids
from jpr.types import Hit, Passage, Question, Ranking
from tests.strategies import Covers, coverage_of, coverages


def ranking(id: str, answers: tuple[tuple[str, ...], ...], *texts: str, regex: str = "") -> Ranking:
    hits = tuple(Hit(Passage(f"{id}-{i}", "", text), -i) for i, text in enumerate(texts))
    return Ranking(Question(id, "?", answers, regex=regex), hits)


RUN = [
    ranking("mark", (("Glenn Quinn",), ("Ames McNamara",)), "Glenn Quinn", "x", "Ames McNamara"),
    ranking("none", (("y",),)),
    ranking("date", (("1997",), ("May",)), "In May 1997"),
    ranking("tall", (), "20,320 feet", "high", regex=r"\d+ feet"),
]
EXPECTED = [[{0}, set(), {1}], [], [{0, 1}], [{0}, set()]]


def same(ours: Coverage, theirs: Coverage) -> bool:
    names = ("n_answers", "n_passages", "question", "rank", "answer")
    return all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in names)


def test_every_answer_is_searched_in_every_passage() -> None:
    assert same(cover(RUN), Coverage.of_lists([2, 1, 2, 1], EXPECTED))


def test_strict_only_takes_matches_away() -> None:
    strict = cover(RUN, strict=True)
    assert strict.covers(2) == [{1}]  # "1997" is a lone numeral; it still counts as an answer
    assert strict.n_answers.tolist() == [2, 1, 2, 1]


def test_processes_share_the_work_and_give_the_same(tmp_path: Path) -> None:
    many = [ranking(str(i), ((str(i),),), f"{i}", f"{i} {i + 1}", "no") for i in range(600)]
    done: list[int] = []
    assert same(cover(many, workers=2, progress=done.append), cover(many))
    assert sum(done) == 600


def test_the_cache_is_used_and_follows_the_content(tmp_path: Path) -> None:
    first = cover(RUN, cache=tmp_path)
    (stored,) = tmp_path.iterdir()
    np.savez(stored, **{name: getattr(first, name) + 1 for name in ("n_answers", "n_passages")})
    assert same(cover(RUN, cache=tmp_path), first)  # what is damaged is computed again
    stamp = stored.stat().st_mtime_ns
    assert same(cover(RUN, cache=tmp_path), first)
    assert stored.stat().st_mtime_ns == stamp
    cover(RUN, cache=tmp_path, strict=True)
    cover(RUN[:3], cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_whatever_is_searched_is_part_of_the_key(tmp_path: Path) -> None:
    for answers, texts in (
        ((("c",),), ["a\n0 b", "c"]),
        ((("c",),), ["a", "b\n0 c"]),
        ((("d",),), ["a", "b\n0 c"]),
        ((("c",), ("d",)), ["a", "b\n0 c"]),
    ):
        run = [ranking("q", answers, *texts)]
        assert same(cover(run, cache=tmp_path), cover(run))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="not cached"):
        assert same(cover(RUN, cache=tmp_path / "file"), cover(RUN))


def test_an_expression_that_runs_out_of_time_is_reported(tmp_path: Path) -> None:
    slow = ranking("slow", (), "a" * 5000 + "!", regex=r"(a|a|a)+(b|b)*c$")
    for _ in range(2):  # what was cut short is not kept
        with pytest.warns(UserWarning, match=r"1 regular expressions .*slow"):
            assert cover([slow], cache=tmp_path).covers(0) == [frozenset()]


def test_gold_passages_by_id() -> None:
    gold = {"mark": {"quinn": {"mark-0", "elsewhere"}, "ames": {"mark-2", "mark-0"}}}
    coverage = cover_by_ids(RUN[:2], gold)
    assert same(coverage, Coverage.of_lists([2, 0], [[{0, 1}, set(), {1}], []]))


@given(coverages())
def test_matrix_and_sets_agree(case: tuple[list[int], Covers]) -> None:
    coverage = coverage_of(case)
    for i, passages in enumerate(case[1]):
        assert coverage.covers(i) == passages
        assert coverage.matrix(i).shape == (case[0][i], len(passages))
        columns = [set(np.flatnonzero(column).tolist()) for column in coverage.matrix(i).T]
        assert columns == passages


@given(coverages(), st.randoms(use_true_random=False))
def test_reordering_is_reordering(case: tuple[list[int], Covers], chance: random.Random) -> None:
    n_answers, covers = case
    positions = [
        chance.sample(range(len(ranking)), chance.randint(0, len(ranking))) for ranking in covers
    ]
    moved = [[ranking[i] for i in order] for ranking, order in zip(covers, positions, strict=True)]
    assert same(coverage_of(case).reorder(positions), Coverage.of_lists(n_answers, moved))
