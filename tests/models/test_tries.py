"""Tries against all spans, enumerated."""

from collections.abc import Iterator
from dataclasses import fields

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from jpr.models.tries import Tries
from tests.models.spans import Text, tries_of, whole_spans

LARGE = 2**31 - 1
TOKENS = st.sampled_from([-1, 0, 1, 2, 3, LARGE])
TEXTS = st.lists(st.lists(st.tuples(TOKENS, st.booleans()), max_size=7), max_size=4)
QUESTIONS = st.lists(TEXTS, min_size=1, max_size=3)


def nodes(
    tries: Tries, node: int, span: tuple[int, ...] = ()
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield a node and those below it, each with its span."""
    yield node, span
    first = int(tries.first[node])
    for child in range(first, first + int(tries.counts[node])):
        yield from nodes(tries, child, (*span, int(tries.tokens[child])))


@given(QUESTIONS, st.integers(1, 5))
@example([[], [[(5, False)]], [[]]], 3)
@example([[[(7, True), (7, False)] * 20]] * 9, 16)
def test_tries_are_of_the_whole_spans(questions: list[list[Text]], longest: int) -> None:
    tries = tries_of(questions, longest)
    numbers: list[int] = []
    for root, texts in zip(tries.roots.tolist(), questions, strict=True):
        spans = dict(nodes(tries, root))
        expected = whole_spans(texts, longest)
        whole = [span for node, span in spans.items() if tries.is_whole[node]]
        assert sorted(whole) == sorted(expected)
        for node, span in spans.items():
            assert int(tries.below[node]) == sum(one[: len(span)] == span for one in expected)
            assert node == root or tries.below[node]
        by_number = [spans[node] for node in sorted(spans)]
        assert by_number == sorted(set(by_number), key=lambda span: (len(span), span))
        numbers += sorted(spans)
    assert numbers == list(range(len(tries.tokens)))
    assert tries.widest == int(tries.counts.max())
    assert tries.largest == int(torch.diff(tries.roots, append=torch.tensor([len(numbers)])).max())


def test_the_same_tokens_are_in_other_questions_other_nodes() -> None:
    texts: list[Text] = [[(3, False), (4, True), (3, False)]]
    one, two = tries_of([texts], 4), tries_of([texts, texts], 4)
    size = len(one.tokens)
    assert torch.equal(two.tokens, one.tokens.repeat(2))
    assert torch.equal(two.below, one.below.repeat(2))
    assert torch.equal(two.first, torch.cat([one.first, one.first + size]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("vocabulary", [9, 32128, LARGE])
def test_a_gpu_builds_the_same(vocabulary: int) -> None:
    chance = torch.Generator().manual_seed(0)
    ids = (torch.rand(8000, generator=chance).double() ** 3 * vocabulary).long()
    inner = torch.rand(8000, generator=chance) < 0.3
    lengths, texts = torch.full((40,), 200), torch.tensor([10, 0, 25, 5])
    here = Tries.of(ids, lengths, texts, inner, 16)
    there = Tries.of(ids.cuda(), lengths.cuda(), texts.cuda(), inner.cuda(), 16)
    for field in fields(Tries):
        mine, its = getattr(here, field.name), getattr(there, field.name)
        assert torch.equal(mine, its.cpu()) if isinstance(mine, torch.Tensor) else mine == its
