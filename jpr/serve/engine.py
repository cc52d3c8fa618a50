"""The jobs of requests, run by a pipeline, some together; knows nothing of HTTP.

The encoded candidates of the last questions are kept where the scorer can keep them: the same
question with another β, decoder or k then takes milliseconds.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, inf, nextafter
from time import monotonic
from typing import TypeVar

from jpr.decode import Rows
from jpr.errors import ConfigError, DataError
from jpr.formats.replies import reply_json, tree_json
from jpr.pipeline import OpenQuestion, Pipeline, as_question
from jpr.rerank.decoding import Decoding
from jpr.rerank.joint import JointReranker
from jpr.rerank.scorer import ModelInput, Opened, Scorer
from jpr.stages import batched
from jpr.types import INDEPENDENT, Answer, Hit, Prefix, Ranking, Reply

MAX_JOINT = 20
"""Candidates of a rerank job that are chosen jointly; the others follow by their own probability.
After twenty passages there is hardly an answer left to cover."""
CACHED_QUESTIONS = 16
"""Questions whose encoded candidates are kept."""
SEARCH_SECONDS = 5.0
"""Deadline of one search, once candidates are encoded."""


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
    corpus: str  # its name: the same question to the same corpus has the same candidates
    question: str
    options: DecodeOptions
    compare: bool = False  # whether to return the passages ranked independently, too

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the candidates."""
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
    tree: dict[str, object]
    tokens: int  # that the model read


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A query to a corpus."""

    pipeline: Pipeline
    query: str
    k: int


Job = TypeVar("Job")
Key = TypeVar("Key")
Placed = tuple[int, Job]
"""A job, or its result, after the job's position in a batch."""


class DeadlineScorer:
    """A scorer whose searches have a number of seconds each; belongs to one thread.

    A tree whose passages are found in every order grows with the factorial of k, and other
    requests wait for the same thread.
    """

    def __init__(self, scorer: Scorer, seconds: float) -> None:
        """Wrap a scorer."""
        self._scorer, self._seconds = scorer, seconds
        self.batch, self.ahead, self.index_tokens = scorer.batch, scorer.ahead, scorer.index_tokens
        self.stays_open, self.reads_answers = scorer.stays_open, scorer.reads_answers
        self.key = scorer.key
        self.tokens: tuple[int, ...] = ()  # of each question opened last
        self.total_tokens = 0  # of all questions opened so far
        self.start()

    def start(self) -> None:
        """Start the clock of the next search."""
        self._deadline = monotonic() + self._seconds

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Encode the candidates, which the deadline does not include: their number is limited."""
        opened = self._scorer.open(inputs)
        self.tokens = tuple(sum(len(one.ids) for one in each.prompted) for each in inputs)
        self.total_tokens += sum(self.tokens)
        self.start()

        def ask(prefixes: Sequence[tuple[int, Prefix]]) -> Rows:
            if monotonic() > self._deadline:
                raise DataError(
                    f"the search did not end within {self._seconds:g} seconds; use a smaller k, "
                    "or the decoder sets or seq"
                )
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
        self._joint = pipeline.reranker.with_scorer(self._scorer)
        self._count, self.weights = count, self._joint.weights
        self._cache: OrderedDict[tuple[str, str], OpenQuestion] = OrderedDict()
        self.pipeline = replace(pipeline, reranker=self._joint)
        """The pipeline of jobs, perhaps with another retriever."""

    def work(
        self, jobs: Sequence[AskJob | RerankJob]
    ) -> Iterator[Placed[dict[str, object] | RerankResult]]:
        """Run some jobs, questions first; yield each result as soon as it is ready."""
        before = self._scorer.total_tokens
        asks = [(place, job) for place, job in enumerate(jobs) if isinstance(job, AskJob)]
        reranks = [(place, job) for place, job in enumerate(jobs) if isinstance(job, RerankJob)]
        yield from self._ask_cached(asks) if self._scorer.stays_open else self._ask_batched(asks)
        for options, group in _grouped(reranks, lambda job: job.options).items():
            for batch in batched(group, self._scorer.batch):
                yield from self._rerank(batch, options)
        self._count("batches", 1)
        self._count("jobs", len(jobs))
        self._count("tokens", self._scorer.total_tokens - before)

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[Placed[Ranking]]:
        """Run the first stage, for queries to the same corpus together; any thread may call it."""
        groups = _grouped(enumerate(jobs), lambda job: (id(job.pipeline.retriever), job.k))
        for (_, k), group in groups.items():
            questions = [as_question(job.query) for _, job in group]
            found = group[0][1].pipeline.retriever.retrieve_many(questions, k)
            yield from zip((place for place, _ in group), found, strict=True)

    def _ask_cached(self, asks: Sequence[Placed[AskJob]]) -> Iterator[Placed[dict[str, object]]]:
        """Answer one question after another, keeping what is encoded; cached ones come first."""
        new = {
            ask.key: SearchJob(ask.pipeline, ask.question, ask.pipeline.candidates)
            for _, ask in asks
            if ask.key not in self._cache
        }
        found = dict(self.search(list(new.values())))
        candidates = {key: found[at] for at, key in enumerate(new)}
        for place, ask in sorted(asks, key=lambda one: one[1].key in new):
            opened = self._cache.pop(ask.key, None)
            self._count("reused", int(opened is not None))
            opened = opened or OpenQuestion(ask.pipeline, candidates[ask.key])
            self._cache[ask.key] = opened
            if len(self._cache) > CACHED_QUESTIONS:
                self._cache.popitem(last=False)
            self._scorer.start()
            reply = opened.reply(**asdict(ask.options))
            alone = opened.reply(decoder=INDEPENDENT, k=ask.options.k) if ask.compare else None
            yield place, reply_json(reply, alone)

    def _ask_batched(self, asks: Sequence[Placed[AskJob]]) -> Iterator[Placed[dict[str, object]]]:
        """Answer questions with the same options together."""
        groups = _grouped(asks, lambda ask: (id(ask.pipeline.retriever), ask.options, ask.compare))
        for (_, options, compare), group in groups.items():
            pipeline = group[0][1].pipeline
            questions = [as_question(ask.question) for _, ask in group]
            replies = list(pipeline.ask_many(questions, **asdict(options)))
            others: Iterable[Reply | None] = [None] * len(group)
            if compare:
                others = pipeline.ask_many(questions, decoder=INDEPENDENT, k=options.k)
            for (place, _), reply, alone in zip(group, replies, others, strict=True):
                yield place, reply_json(reply, alone)

    def _rerank(
        self, jobs: Sequence[Placed[RerankJob]], options: DecodeOptions
    ) -> Iterator[Placed[RerankResult]]:
        decoding = self._joint.decoding.with_decoder(options.decoder, options.beta)
        encoded = self._joint.encode([job.candidates for _, job in jobs])
        k = min(options.k or MAX_JOINT, MAX_JOINT)
        choices = list(encoded.choose(decoding, k, explain=True))
        longest = max(len(job.candidates.hits) for _, job in jobs)
        alone = encoded.choose(Decoding(INDEPENDENT), longest, explain=False)
        tokens = self._scorer.tokens
        for (place, _), choice, rest, read in zip(jobs, choices, alone, tokens, strict=True):
            order = _decreasing([*choice.ranking.hits, *rest.ranking.hits])
            chosen = tuple(order.items())[: options.k]
            yield place, RerankResult(chosen, choice.answers, tree_json(choice), read)


def _grouped(
    jobs: Iterable[Placed[Job]], key: Callable[[Job], Key]
) -> dict[Key, list[Placed[Job]]]:
    """Return the jobs that can run together."""
    groups: dict[Key, list[Placed[Job]]] = {}
    for place, job in jobs:
        groups.setdefault(key(job), []).append((place, job))
    return groups


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
