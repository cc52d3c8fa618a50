"""The jobs of requests, run by a pipeline, some together; knows nothing of HTTP.

The encoded candidates of the last questions are kept where the scorer can keep them: the same
question with another β, decoder or k then takes milliseconds.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, inf, nextafter
from time import monotonic
from typing import Any, TypeVar

from jpr.decode.search import Rows
from jpr.errors import ConfigError, DataError
from jpr.formats.replies import Json, reply_json, tree_json
from jpr.pipeline import OpenQuestion, Pipeline, as_question
from jpr.rerank.decoding import Decoding
from jpr.rerank.joint import JointReranker
from jpr.rerank.prompt import Prompted
from jpr.rerank.scorer import ModelInput, Opened, Scorer
from jpr.serve.batching import CallerLeftError, IsLeft
from jpr.stages import batched
from jpr.types import INDEPENDENT, Answer, Hit, Prefix, Ranking

MAX_JOINT = 20
"""Candidates of a rerank job that are chosen jointly; the others follow by their own probability.
After twenty passages there is hardly an answer left to cover."""
CACHED_QUESTIONS = 16  # questions whose encoded candidates are kept
SEARCH_SECONDS = 5.0  # deadline of one search, once candidates are encoded


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How passages are to be chosen; None is the pipeline's default."""

    k: int | None = None
    decoder: str | None = None
    beta: float | None = None


@dataclass(frozen=True, slots=True)
class AskJob:
    """A question to a corpus."""

    pipeline: Pipeline
    corpus: str  # its name
    question: str
    ways: tuple[DecodeOptions, ...]  # one for each reply, the compared one last

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the candidates: the same question to the same corpus has the same."""
        return self.corpus, self.question


@dataclass(frozen=True, slots=True)
class RerankJob:
    """Candidates to choose from; without k, all are ranked."""

    candidates: Ranking  # each has its position as its id
    options: DecodeOptions


@dataclass(frozen=True, slots=True)
class RerankResult:
    """The candidates of a job in their new order."""

    order: tuple[tuple[int, float], ...]  # positions and scores, decreasing from 1 towards 0
    answers: tuple[Answer, ...]
    tree: Json
    truncated: frozenset[int]  # positions of candidates of which the model did not read everything
    tokens: int  # that the model read


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A query to a corpus."""

    pipeline: Pipeline
    query: str
    k: int


Job = TypeVar("Job")
Placed = tuple[int, Job]  # a job, or its result, after the job's position in a batch


class _WatchedInput(Sequence[Prompted]):
    """Candidates of a question, with a check before each is read."""

    def __init__(self, candidates: ModelInput, check: Callable[[], None]) -> None:
        self._candidates, self._check = candidates, check

    def __len__(self) -> int:
        return len(self._candidates)

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401  # an int or a slice
        self._check()
        return self._candidates[at]


class DeadlineScorer:
    """A scorer whose searches have a number of seconds each; belongs to one thread.

    A tree whose passages are found in every order grows with the factorial of k, and other
    requests wait for the same thread.
    """

    def __init__(self, scorer: Scorer, seconds: float) -> None:
        self._scorer, self._seconds = scorer, seconds
        self.batch, self.ahead, self.index_tokens = scorer.batch, scorer.ahead, scorer.index_tokens
        self.stays_open, self.reads_answers = scorer.stays_open, scorer.reads_answers
        self.key = scorer.key
        self.tokens: tuple[int, ...] = ()  # of each question opened last
        self.total_tokens = 0  # of all questions opened so far
        self._is_left: Callable[[], bool] = lambda: False

    def start(self, is_left: IsLeft, *places: int) -> None:
        """Start the clock of the next search, which also ends once all its callers have left."""
        self._is_left = lambda: all(map(is_left, places))
        self._check_caller()
        self._deadline = monotonic() + self._seconds

    def _check_caller(self) -> None:
        if self._is_left():
            raise CallerLeftError

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Encode the candidates, which the deadline does not include: their number is limited."""
        opened = self._scorer.open([_WatchedInput(one, self._check_caller) for one in inputs])
        self.tokens = tuple(sum(len(one.ids) for one in each) for each in inputs)
        self.total_tokens += sum(self.tokens)
        self._deadline = monotonic() + self._seconds

        def ask(prefixes: Sequence[tuple[int, Prefix]]) -> Rows:
            self._check_caller()
            if monotonic() > self._deadline:
                problem = f"the search did not end within {self._seconds:g} seconds"
                raise DataError(f"{problem}; use a smaller k, or the decoder sets or seq")
            return opened.ask(prefixes)

        return replace(opened, ask=ask)


class ServiceEngine:
    """Runs the jobs of many requests; belongs to one thread, except for `search`."""

    def __init__(
        self, pipeline: Pipeline, count: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        """Take a pipeline with a joint model, whose searches get a deadline.

        `count(name, n)` is called with the numbers of jobs, batches, tokens and reused questions.
        """
        if not isinstance(pipeline.reranker, JointReranker):
            raise ConfigError("only a joint model can be served; use a JointReranker")
        self._scorer = DeadlineScorer(pipeline.reranker.scorer, SEARCH_SECONDS)
        self.batch = self._scorer.batch
        """How many jobs it is faster to run together; with 1, others get their turn after each."""
        self._joint = pipeline.reranker.with_scorer(self._scorer)
        self._count, self.weights = count, self._joint.weights
        self._cache: OrderedDict[tuple[str, str], OpenQuestion] = OrderedDict()
        self.pipeline = replace(pipeline, reranker=self._joint)
        """The pipeline of jobs, perhaps with another retriever."""

    def work(
        self, jobs: Sequence[AskJob | RerankJob], is_left: IsLeft = lambda _: False
    ) -> Iterator[Placed[Json | RerankResult]]:
        """Run some jobs, questions first; yield each result as soon as it is ready.

        No further passage is encoded for a job whose caller has left, or of a batch on a GPU all.
        """
        before = self._scorer.total_tokens
        asks = [(place, job) for place, job in enumerate(jobs) if isinstance(job, AskJob)]
        reranks = [(place, job) for place, job in enumerate(jobs) if isinstance(job, RerankJob)]
        ask = self._ask_cached if self._scorer.stays_open else self._ask_batched
        yield from ask(asks, is_left)
        for places, group in _grouped(reranks, lambda job: job.options):
            yield from zip(places, self._rerank(group, places, is_left), strict=True)
        self._count("batches", 1)
        self._count("jobs", len(jobs))
        self._count("tokens", self._scorer.total_tokens - before)

    def search(
        self, jobs: Sequence[SearchJob], is_left: IsLeft = lambda _: False
    ) -> Iterator[Placed[Ranking]]:
        """Run the first stage, for queries to the same corpus together; any thread may call it."""
        waiting = (one for one in enumerate(jobs) if not is_left(one[0]))
        groups = _grouped(waiting, lambda job: (id(job.pipeline.retriever), job.k))
        for places, group in groups:
            questions = [as_question(job.query) for job in group]
            found = group[0].pipeline.retriever.retrieve_many(questions, group[0].k)
            yield from zip(places, found, strict=True)

    def _ask_cached(
        self, asks: Sequence[Placed[AskJob]], is_left: IsLeft
    ) -> Iterator[Placed[Json]]:
        """Answer one question after another, keeping what is encoded."""
        for place, ask in asks:
            self._scorer.start(is_left, place)
            opened = self._cache.pop(ask.key, None)
            self._count("reused", int(opened is not None))
            opened = self._cache[ask.key] = opened or ask.pipeline.open(ask.question)
            if len(self._cache) > CACHED_QUESTIONS:
                self._cache.popitem(last=False)
            self._scorer.start(is_left, place)
            yield place, reply_json(*(opened.reply(**asdict(way)) for way in ask.ways))

    def _ask_batched(
        self, asks: Sequence[Placed[AskJob]], is_left: IsLeft
    ) -> Iterator[Placed[Json]]:
        """Answer questions with the same options together."""
        groups = _grouped(asks, lambda ask: (id(ask.pipeline.retriever), ask.ways))
        for places, group in groups:
            self._scorer.start(is_left, *places)
            questions = [as_question(ask.question) for ask in group]
            ask_many = group[0].pipeline.ask_many
            replies = [list(ask_many(questions, **asdict(way))) for way in group[0].ways]
            for place, *each in zip(places, *replies, strict=True):
                yield place, reply_json(*each)

    def _rerank(
        self, jobs: Sequence[RerankJob], places: Sequence[int], is_left: IsLeft
    ) -> Iterator[RerankResult]:
        options = jobs[0].options
        decoding = self._joint.decoding.with_decoder(options.decoder, options.beta)
        k = min(options.k or MAX_JOINT, MAX_JOINT)
        n = self._scorer.batch
        for batch, callers in zip(batched(jobs, n), batched(places, n), strict=True):
            self._scorer.start(is_left, *callers)
            encoded = self._joint.encode([job.candidates for job in batch])
            choices = list(encoded.choose(decoding, k, explain=True))
            longest = max(len(job.candidates.hits) for job in batch)
            alone = encoded.choose(Decoding(INDEPENDENT), longest, explain=False)
            for choice, rest, read in zip(choices, alone, self._scorer.tokens, strict=True):
                order = _decreasing([*choice.ranking.hits, *rest.ranking.hits])
                chosen = tuple(order.items())[: options.k]
                cut = frozenset(choice.truncated)
                yield RerankResult(chosen, choice.answers, tree_json(choice), cut, read)


def _grouped(
    jobs: Iterable[Placed[Job]], key: Callable[[Job], object]
) -> Iterable[tuple[list[int], list[Job]]]:
    """Return the positions and the jobs of each group that can run together."""
    groups: dict[object, tuple[list[int], list[Job]]] = {}
    for place, job in jobs:
        places, group = groups.setdefault(key(job), ([], []))
        places.append(place)
        group.append(job)
    return groups.values()


def _decreasing(hits: Sequence[Hit]) -> dict[int, float]:
    """Return the positions of candidates, each once, with strictly decreasing probabilities.

    >>> from jpr.types import Passage
    >>> hits = [Hit(Passage(id, "", ""), score) for id, score in [("4", -1.0), ("2", 0.0)]]
    >>> _decreasing(hits) == {4: exp(-1), 2: nextafter(exp(-1), 0)}
    True
    """
    found: dict[int, float] = {}
    below = inf
    for hit in hits:
        if int(hit.passage.id) not in found:
            below = min(exp(hit.score), nextafter(below, 0.0))
            found[int(hit.passage.id)] = below
    return found
