"""A joint model at work, wherever it runs: what it is given, and what can be asked of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.decode.answers import AnswerCalibration
from jpr.decode.conditioning import Conditioned, Conditioning, Observed, scaled
from jpr.decode.search import Ask, Limits, Row, Rows, chosen_passages, decode_many
from jpr.rerank.answer_text import AnswerLocator, candidate_answers, expected_answers
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import PassageTokens, find_evidence
from jpr.rerank.order import ranked
from jpr.rerank.prompt import Prompted
from jpr.rerank.windows import Windows, of_candidates
from jpr.types import Answer, Node, Prefix, Ranking, Reply

ModelInput = Sequence[Prompted]
"""The candidates of one question, in first-stage order; each of a long one's windows is one."""


def rank_prior(given: ModelInput) -> NDArray[np.float32]:
    """Return the log prior of candidates, by their first-stage rank."""
    return -np.log1p(np.array([one.candidate for one in given], dtype=np.float32))


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that has encoded the candidates of some questions; belongs to one thread."""

    ask: Ask  # log P(next passage | prefix), a row for each (question, prefix)
    passages: Sequence[PassageTokens] | None = None
    """Where answers may be, by question; None if the model does not read answers."""


class Scorer(Protocol):
    """The weights of a joint model; threads may share it."""

    batch: int  # how many questions to encode together
    ahead: int  # for how many prefixes of a question to ask together
    index_tokens: int  # how many its head has; 0 for a pointer head
    stays_open: bool  # whether what is opened works after other candidates were encoded
    reads_answers: bool  # whether it locates answers
    key: str  # names the weights

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Encode the candidates."""


class EncodedCandidates:
    """The candidates of some questions, encoded once: each further choice takes milliseconds.

    Belongs to one thread.
    """

    def __init__(
        self,
        rankings: Sequence[Ranking],
        inputs: Sequence[ModelInput],
        scorer: Scorer,
        locator: AnswerLocator,
        conditioning: Conditioning,
        calibration: AnswerCalibration,
    ) -> None:
        """Encode candidates; `inputs` are the model's inputs for the questions that have any."""
        self._rankings, self._inputs = rankings, inputs
        self._scorer, self._locator = scorer, locator
        self._learned, self._calibration = conditioning, calibration
        self._opened = scorer.open(inputs) if inputs else Opened(lambda _: [])
        self._windows = [Windows([one.candidate for one in each]) for each in inputs]
        self._ask = of_candidates(self._opened.ask, self._windows)
        self._known: dict[tuple[int, Prefix], Row] = {}

    def relevance(self, pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        """Return log R(c | prefix) of the model's decoder, a row for each (question, prefix).

        Questions are counted without those that have no candidates. The model is asked for no
        prefix twice.
        """
        new = [pair for pair in pairs if pair not in self._known]
        if new:
            self._known |= zip(new, self._ask(new), strict=True)
        return [self._known[pair] for pair in pairs]

    def next_passage(self, decoding: Decoding) -> Ask:
        """Return log P(next | prefix) as searches use it, called as `relevance`."""
        model = self._conditioned(decoding) if decoding.is_conditioned else None
        return model or self.relevance

    def _conditioned(self, decoding: Decoding) -> Conditioned | None:
        """Return P(next | prefix); None if the model reads no answers."""
        if self._opened.passages is None:
            return None
        weights = decoding.weights(self._learned)
        return Conditioned(self.relevance, self._observed, weights, self._calibration)

    @cached_property
    def _observed(self) -> list[Observed]:
        vocabulary, some = self._locator.vocabulary, [one for one in self._rankings if one.hits]
        return [
            Observed(
                windows.evidence(find_evidence(passages, vocabulary)),
                scaled(np.array([hit.score for hit in given.hits])),
                len(given.question.text.split()),
            )
            for given, windows, passages in zip(
                some, self._windows, self._opened.passages or (), strict=True
            )
        ]

    def choose(self, decoding: Decoding, k: int, *, explain: bool) -> Iterator[Reply]:
        """Choose k candidates for each question.

        With `explain`, a reply has the answers that the chosen candidates contain, and its nodes
        have the answers they are expected to add; both only if the model reads answers.
        """
        model = self._conditioned(decoding) if decoding.is_conditioned or explain else None
        by_answers = model if decoding.is_conditioned else None
        found = enumerate(self._searched(decoding, k, by_answers))
        for given in self._rankings:
            at, nodes = next(found) if given.hits else (-1, ())
            answers: tuple[Answer, ...] = ()
            if explain and nodes and model is not None:
                evidence, overall = model.observed[at].evidence, model.overall(at)
                chosen, locator = chosen_passages(nodes), self._locator
                answers = candidate_answers(evidence, overall, given.hits, chosen, locator)
                if by_answers:
                    nodes = tuple(
                        replace(node, expected=expected_answers(model, at, node, given, locator))
                        for node in nodes
                    )
            choices = ((node.passage, node.score) for node in nodes if node.is_new)
            ranking = ranked(given.question, given.hits, choices)
            search = nodes, decoding.decoder, decoding.effective_beta
            cut = {one.candidate for one in self._inputs[at] if one.is_cut} if given.hits else ()
            yield Reply(answers, ranking, given, *search, tuple(sorted(cut)))

    def _searched(
        self, decoding: Decoding, k: int, chooser: Conditioned | None
    ) -> Iterator[tuple[Node, ...]]:
        """Yield the search of each question that has candidates, up to the threshold."""
        searches = []
        for one in self._inputs:
            costs = list({candidate.candidate: candidate.tokens for candidate in one}.values())
            limits = Limits(k, budget=decoding.budget, costs=costs)
            searches.append(decoding.search(len(costs), limits, self._scorer.ahead))
        for at, nodes in enumerate(decode_many(searches, chooser or self.relevance)):
            if chooser is not None:
                nodes = tuple(
                    replace(node, worth=chooser.worth(at, node.prefix, node.passage))
                    for node in nodes
                )
            ends = (i for i, node in enumerate(nodes) if i and node.worth < decoding.threshold)
            yield nodes[: next(ends, len(nodes))]
