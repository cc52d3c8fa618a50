"""Fusion of lexical and dense search with a weight for each question.

Where BM25's first passage is far ahead of the others, the question's words name what is sought;
where the first vector is far ahead, its meaning does. In a large corpus more passages share the
words by chance. `recipes/fusion.py` fits the coefficients; docs/lab.md says what else was tried.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import exp, log

from jpr.errors import ConfigError
from jpr.retrieve.rank_fusion import Scored, ScoreMix, ranked

_BEHIND = 20  # place, from 0, of the passage that the first is compared with
_FEWEST, _MOST = 1_000, 300_000  # passages that the coefficients were fitted on


@dataclass(frozen=True, slots=True)
class QuestionMix:
    """A `ScoreMix` of a lexical and a dense ranking whose weights depend on both.

    The lexical weight is 1 / (1 + exp(-z)), where z is the sum of the coefficients times the
    signals. A ranking that is empty, or in which all passages have one score, has no say.

    >>> mix = QuestionMix(passages=1000)
    >>> clear, unclear = [(7, 20.0), (8, 5.0)], [(7, 5.1), (8, 5.0)]
    >>> vectors = [(9, 0.81), (8, 0.80)]
    >>> mix.lexical_weight(clear, vectors) > mix.lexical_weight(unclear, vectors)
    True
    """

    passages: int
    """Size of the corpus."""
    constant: float = 4.468
    lexical_gap: float = 3.547
    dense_gap: float = -7.212
    dense_first: float = -4.776
    log_passages: float = -0.233

    def signals(self, lexical: Scored, dense: Scored) -> tuple[float, ...]:
        """Return what the coefficients are multiplied with.

        A constant 1; how far the first passage is ahead of the 21st, for words as a share of its
        score, for vectors as a difference of inner products (a share, too, if these exceed 1); the
        inner product of the first, at most 1; and the logarithm of the number of passages, within
        the sizes that the fit has seen.
        """
        n_passages = min(max(self.passages, _FEWEST), _MOST)
        first = min(dense[0][1], 1.0) if dense else 0.0
        return 1.0, _gap(lexical, 0.0), _gap(dense, 1.0), first, log(n_passages)

    def lexical_weight(self, lexical: Scored, dense: Scored) -> float:
        """Return the weight of the lexical ranking; that of the dense one is 1 minus it."""
        _, *coefficients = astuple(self)
        pairs = zip(coefficients, self.signals(lexical, dense), strict=True)
        return 1 / (1 + exp(-sum(coefficient * signal for coefficient, signal in pairs)))

    def __call__(self, rankings: Sequence[Scored]) -> Scored:
        """Return every passage of the lexical and of the dense ranking with its new score."""
        if len(rankings) != 2:
            raise ConfigError(f"{len(rankings)} rankings; give a lexical and a dense one")
        informative = [[] if _is_constant(ranking) else ranking for ranking in rankings]
        weight = self.lexical_weight(*informative)
        fused = dict(ScoreMix((weight, 1 - weight))(informative))
        silent = {key: 0.0 for ranking in rankings for key, _ in ranking if key not in fused}
        return ranked([*fused.items(), *silent.items()])


def _gap(ranking: Scored, least: float) -> float:
    """Return how far the first score is ahead, in units of itself or of `least`."""
    if not ranking or ranking[0][1] <= 0:
        return 0.0
    first, later = ranking[0][1], ranking[min(_BEHIND, len(ranking) - 1)][1]
    return (first - later) / max(first, least)


def _is_constant(ranking: Scored) -> bool:
    return len(ranking) > 1 and ranking[0][1] == ranking[-1][1]
