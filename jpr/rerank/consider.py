"""Candidates that a joint model has read; to choose from them again, otherwise, costs little."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jpr.decode import Ask, Covering, Decoded, Evidence, Limits, Prefix, Rows, Search, decode_many
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import Words, evidence
from jpr.rerank.explain import Choice, Places, added
from jpr.rerank.order import ranked
from jpr.rerank.scorer import Asked, Scorer
from jpr.rerank.told import told
from jpr.types import Ranking


class Considered:
    """The candidates of some questions, as a model has read them; belongs to one thread."""

    def __init__(
        self,
        given: Sequence[Ranking],
        asked: Sequence[Asked],
        scorer: Scorer,
        words: Words,
        places: Places,
    ) -> None:
        """Let a model read candidates, which `asked` puts as it takes them."""
        self._given, self._asked, self._scorer = given, asked, scorer
        self._words, self._places = words, places
        opened = scorer.open(asked)
        self._ask, self._passages = _remembering(opened.ask), opened.passages

    @property
    def stays_open(self) -> bool:
        """Whether passages can still be chosen after the model has read other candidates."""
        return self._scorer.stays_open

    def choose(self, decoding: Decoding, k: int, *, explain: bool) -> Iterator[Choice]:
        """Choose k candidates for each question, and if wanted say what each adds."""
        covering, for_answers = None, decoding.adds_answers
        if self._passages is not None and (for_answers or explain):
            covering = Covering(self._ask, self._evidence, decoding.relevance)
        chooser = covering if for_answers else None
        searches = [self._search(decoding, one, k) for one in self._asked]
        for at, decoded in enumerate(decode_many(searches, chooser or self._ask)):
            decoded, worths = _stopped(decoding.threshold, chooser, at, decoded)
            given = self._given[at]
            chosen = [(node.passage, node.score) for node in decoded.nodes if node.is_new]
            choice = Choice(ranked(given.question, given.hits, chosen), decoded, (), worths)
            yield self._told(covering, chooser, at, choice) if explain else choice

    @cached_property
    def _evidence(self) -> list[Evidence]:
        return [evidence(one, self._words) for one in self._passages or ()]

    def _search(self, decoding: Decoding, asked: Asked, k: int) -> Search:
        costs = [len(one.ids) for one in asked.prompted]
        limits = Limits(k, budget=decoding.budget, costs=costs)
        return decoding.search(len(costs), limits, self._scorer.ahead)

    def _told(
        self, covering: Covering | None, chooser: Covering | None, question: int, choice: Choice
    ) -> Choice:
        """Add the answers, and what each passage adds where passages were chosen for that."""
        if covering is None:
            return choice
        given, decoded = self._given[question], choice.decoded
        adds = added(chooser, question, decoded, given, self._places) if chooser else ()
        known, overall = covering.evidence[question], covering.overall(question)
        answers = told(known, overall, given.hits, decoded.passages, self._places)
        return choice._replace(adds=adds, answers=answers)


def _remembering(ask: Ask) -> Ask:
    """Ask a model for no prefix twice."""
    known: dict[tuple[int, Prefix], NDArray[np.floating]] = {}

    def asked(wanted: Sequence[tuple[int, Prefix]]) -> Rows:
        new = [pair for pair in wanted if pair not in known]
        if new:
            known.update(zip(new, ask(new), strict=True))
        return [known[pair] for pair in wanted]

    return asked


def _stopped(
    least: float, covering: Covering | None, question: int, decoded: Decoded
) -> tuple[Decoded, tuple[float, ...]]:
    """Return what was chosen up to the first that adds too little, and what each is worth.

    One passage is always kept.
    """
    nodes = decoded.nodes
    worths = [
        covering.worth(question, node.prefix, node.passage) if covering else node.score
        for node in nodes
    ]
    little = (at for at, worth in enumerate(worths) if worth < least and at > 0)
    enough = next(little, len(nodes))
    return Decoded(nodes[:enough]), tuple(worths[:enough])
