"""Random coverage for laws: few questions, few answers, so that hypothesis can shrink well."""

from collections.abc import Callable

from hypothesis import strategies as st

from jpr.coverage import Coverage

Covers = list[list[set[int]]]


@st.composite
def coverages(draw: Callable[[st.SearchStrategy[int]], int]) -> tuple[list[int], Covers]:
    """Return answers per question, and for each question the answers of each ranked passage."""
    n_answers = [draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 4)))]
    covers: Covers = [
        [
            {answer for answer in range(n) if draw(st.integers(0, 2)) == 0}
            for _ in range(draw(st.integers(0, 7)))
        ]
        for n in n_answers
    ]
    return n_answers, covers


def coverage_of(case: tuple[list[int], Covers]) -> Coverage:
    """Build the object from a drawn case."""
    return Coverage.of_lists(*case)
