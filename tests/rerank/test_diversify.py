import builtins
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError, MissingExtraError
from jpr.rerank.diversify import LIBRARY, DiverseReranker, Mmr, Pyversity, Strategy
from jpr.types import Hit, Passage, Question, Ranking
from tests.rerank.sample import candidates, check_choice, ids
from tests.retrieve.toy import WordEncoder, passages

Vectors = NDArray[np.float32]
CASES = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(0, 8), st.integers(0, 9), st.sampled_from([0.0, 0.3, 1])
)


def drawn(seed: int, n: int, dimension: int = 4) -> tuple[Vectors, Vectors]:
    """A question's relevances and unit vectors of passages, one of which comes twice."""
    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(n, dimension)).astype(np.float32)
    if n > 2:
        vectors[-1] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    question = chance.normal(size=dimension).astype(np.float32)
    return np.array([vector @ question for vector in vectors], np.float32), vectors


def mmr_by_definition(
    relevance: Vectors, vectors: Vectors, k: int, weight: float
) -> list[tuple[int, float]]:
    """Compare every candidate with every chosen passage, at every step."""
    chosen: list[tuple[int, float]] = []
    while len(chosen) < min(k, len(vectors)):
        left = [i for i in range(len(vectors)) if i not in [place for place, _ in chosen]]
        score = {
            i: weight * float(relevance[i])
            - (1 - weight) * max([0.0, *(float(vectors[i] @ vectors[j]) for j, _ in chosen)])
            for i in left
        }
        best = max(left, key=lambda i: (round(score[i], 6), -i))
        chosen.append((best, score[best]))
    return chosen


@given(CASES)
def test_mmr_is_its_definition(case: tuple[int, int, int, float]) -> None:
    seed, n, k, weight = case
    relevance, vectors = drawn(seed, n)
    found = Mmr(weight).choose(relevance, vectors, k)
    expected = mmr_by_definition(relevance, vectors, k, weight)
    assert [place for place, _ in found] == [place for place, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0.05, 0.95))
def test_mmr_is_that_of_pyversity(seed: int, n: int, weight: float) -> None:
    from pyversity import mmr

    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(n, 6)).astype(np.float32)
    relevance = chance.normal(size=n).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    theirs = mmr(vectors, relevance, n, diversity=1 - weight)
    ours = Mmr(weight).choose(relevance, vectors, n)
    assert [place for place, _ in ours] == theirs.indices.tolist()
    np.testing.assert_allclose([s for _, s in ours], theirs.selection_scores, atol=1e-5)


def test_of_equal_passages_the_first_is_taken() -> None:
    same = np.ones((37, 5), np.float32)  # an odd shape, for the edges of a matrix product
    for weight in (0.0, 0.4, 1.0):
        assert [i for i, _ in Mmr(weight).choose(same[:, 0], same, 37)] == list(range(37))


@pytest.mark.parametrize("strategy", [Mmr(1), *(Pyversity(name, 1) for name in LIBRARY)])
def test_relevance_alone_is_the_order_of_relevance(strategy: Strategy) -> None:
    relevance, vectors = drawn(3, 40)
    relevance = relevance.round(1)  # many are equal
    chosen = [place for place, _ in strategy.choose(relevance, vectors, 40)]
    assert chosen == sorted(range(40), key=lambda i: (-relevance[i], i))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(3, 7))
def test_dpp_adds_what_spans_most_with_the_first(seed: int, n: int) -> None:
    # Greedy need not find the best pair, but its second step is the best there is after the first.
    _, vectors = drawn(seed, n)
    level = np.zeros(n, np.float32)
    chosen = [place for place, _ in Pyversity("dpp", 0).choose(level, vectors, 2)]
    span = {pair: determinant(vectors[list(pair)]) for pair in combinations(range(n), 2)}
    with_first = [value for pair, value in span.items() if chosen[0] in pair]
    assert determinant(vectors[chosen]) == pytest.approx(max(with_first), abs=1e-4)


def determinant(vectors: Vectors) -> float:
    return float(np.linalg.det(vectors @ vectors.T))


STRATEGIES = [Mmr(0.6), *(Pyversity(name, 0.6) for name in LIBRARY)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["mmr", *LIBRARY])
@pytest.mark.parametrize(("n", "k"), [(0, 3), (1, 3), (5, 0), (5, 2), (30, 30), (4, 100)])
def test_every_strategy_chooses_k_of_the_candidates(strategy: Strategy, n: int, k: int) -> None:
    given = [Hit(passage, -i) for i, passage in enumerate(passages(n))]
    question = Question("q", "a river in the forest")
    ranking = DiverseReranker(WordEncoder(), strategy).rank(question, given, k)
    check_choice(ranking, question, given, k)


# not `cover`: it prefers what is like many candidates
@pytest.mark.parametrize("strategy", [Mmr(0.3), Pyversity("dpp", 0.3), Pyversity("msd", 0.3)])
def test_of_passages_alike_one_is_enough(strategy: Strategy) -> None:
    texts = ("river river", "river river", "river river", "river castle")
    given = [Hit(Passage(str(i), "", text), 0.0) for i, text in enumerate(texts)]
    ranking = DiverseReranker(WordEncoder(), strategy).rank(Question("q", "river"), given, 2)
    assert ids(ranking) == ["0", "3"]


class CountingEncoder(WordEncoder):
    """Counts what it encodes."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        self.encoded += [passage.text for passage in passages]
        return super().encode_passages(passages)


def test_one_question_or_many_is_the_same_and_shared_passages_are_encoded_once() -> None:
    hits = [Hit(passage, 0.0) for passage in passages(12)]
    rankings = [
        Ranking(Question(str(i), word), tuple(hits[i : i + 6]))
        for i, word in enumerate(("river", "castle", "tower", "market"))
    ]
    encoder = CountingEncoder()
    many = list(DiverseReranker(encoder).rank_many(rankings, 3))
    assert sorted(encoder.encoded) == sorted(hit.passage.text for hit in hits[:9])
    assert many == [DiverseReranker(encoder).rank(r.question, r.hits, 3) for r in rankings]
    assert list(DiverseReranker(encoder).rank_many(iter(rankings * 5), 3)) == many * 5


class BrokenEncoder(WordEncoder):
    """An encoder whose weights are spoilt."""

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        return np.full((len(passages), self.dimension), np.nan, np.float32)


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"λ = 1\.5"):
        Mmr(1.5)
    with pytest.raises(ConfigError, match=r"λ = -1"):
        Pyversity("dpp", -1)
    with pytest.raises(ConfigError, match="choose one of dpp, msd, cover, ssd"):
        Pyversity("bpp")
    with pytest.raises(ConfigError, match="k = -2"):
        DiverseReranker(WordEncoder()).rank(Question("q", "x"), candidates("a"), -2)
    with pytest.raises(DataError, match="NaN"):
        DiverseReranker(BrokenEncoder()).rank(Question("q", "x"), candidates("a"), 1)


def test_without_the_extra_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "pyversity":
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[diversify\]'"):
        Pyversity().choose(*drawn(0, 3), 2)
