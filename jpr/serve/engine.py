"""What requests ask for, done by a pipeline, some together; knows nothing of HTTP.

The candidates of the last questions stay as the model has read them, where it can keep that: the
same question with another β, decoder or k is then a matter of milliseconds.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, inf, nextafter
from typing import TypeVar

from jpr.errors import ConfigError
from jpr.pipeline import Pipeline, worded
from jpr.reply import (
    INDEPENDENT,
    OpenQuestion,
    Reply,
    replies_to,
    reply_json,
    tree_json,
    tree_of,
)
from jpr.rerank.decoding import Decoding
from jpr.rerank.joint import JointReranker
from jpr.serve.jobs import Ask, How, Rerank, Reranked, Search, Told
from jpr.serve.metrics import Metrics
from jpr.serve.patience import PatientScorer
from jpr.types import Hit, Ranking

JOINTLY = 20
"""Of candidates to rerank, so many are chosen jointly at most; the others follow by how likely each
is by itself: after twenty passages there is hardly an answer left to cover."""
KEPT = 16
"""Questions whose candidates stay read."""
SEARCH_SECONDS = 5.0
"""For one search, once candidates are read."""

Job = TypeVar("Job")
Placed = tuple[int, Job]
"""A job, or its result, and the job's place in a batch."""


class Engine:
    """A pipeline at work for many; belongs to one thread, `search` apart."""

    def __init__(self, pipeline: Pipeline, metrics: Metrics) -> None:
        """Take a pipeline with a joint model, whose searches get a limit of time."""
        if not isinstance(pipeline.reranker, JointReranker):
            raise ConfigError("only a joint model can be served; take a JointReranker")
        self._patient = PatientScorer(pipeline.reranker.scorer, SEARCH_SECONDS)
        self._joint = pipeline.reranker.over(self._patient)
        self._metrics = metrics
        self._kept: OrderedDict[tuple[str, str], OpenQuestion] = OrderedDict()
        self.pipeline = replace(pipeline, reranker=self._joint)
        """What is to be asked, or the same with another retriever."""

    @property
    def weights(self) -> str:
        """Names the model's weights."""
        return self._joint.weights

    def work(self, jobs: Sequence[Ask | Rerank]) -> Iterator[Placed[Told | Reranked]]:
        """Do some jobs, questions first; each result comes as soon as it is there."""
        before = self._patient.read
        asks = [(place, job) for place, job in enumerate(jobs) if isinstance(job, Ask)]
        reranks = [(place, job) for place, job in enumerate(jobs) if isinstance(job, Rerank)]
        yield from self._asked_each(asks) if self._patient.stays_open else self._asked(asks)
        yield from self._reranked(reranks)
        self._metrics.count("jpr_batches_total")
        self._metrics.count("jpr_jobs_total", len(jobs))
        self._metrics.count("jpr_tokens_total", self._patient.read - before)

    def search(self, jobs: Sequence[Search]) -> Iterator[Placed[Ranking]]:
        """Find passages, for queries to the same corpus together; any thread may."""
        groups: dict[tuple[int, int], list[int]] = {}
        for place, job in enumerate(jobs):
            groups.setdefault((id(job.pipeline.retriever), job.k), []).append(place)
        for (_, k), places in groups.items():
            questions = [worded(jobs[place].query) for place in places]
            retriever = jobs[places[0]].pipeline.retriever
            yield from zip(places, retriever.retrieve_many(questions, k), strict=True)

    def _asked_each(self, asks: Sequence[Placed[Ask]]) -> Iterator[Placed[Told]]:
        """Answer one after another, keeping what is read; those first that were read already."""
        new = {_key(ask): ask for _, ask in asks if _key(ask) not in self._kept}
        found = dict(self.search([_search(ask) for ask in new.values()]))
        candidates = {key: found[at] for at, key in enumerate(new)}
        for place, ask in sorted(asks, key=lambda one: _key(one[1]) in new):
            opened = self._kept.pop(_key(ask), None)
            if opened is None:
                opened = OpenQuestion(ask.pipeline, candidates[_key(ask)])
            else:
                self._metrics.count("jpr_reused_total")
            self._kept[_key(ask)] = opened
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            self._patient.begin()
            reply = opened.reply(beta=ask.how.beta, decoder=ask.how.decoder, k=ask.how.k)
            alone = opened.reply(decoder=INDEPENDENT, k=ask.how.k) if ask.compare else None
            yield place, reply_json(reply, alone)

    def _asked(self, asks: Sequence[Placed[Ask]]) -> Iterator[Placed[Told]]:
        """Answer those together that are to be answered in the same way."""
        groups: dict[tuple[int, How, bool], list[Placed[Ask]]] = {}
        for place, ask in asks:
            key = id(ask.pipeline.retriever), ask.how, ask.compare
            groups.setdefault(key, []).append((place, ask))
        for (_, how, compare), group in groups.items():
            own = [ask for _, ask in group]
            replies = self._replies(own, how)
            others = self._replies(own, How(how.k, INDEPENDENT)) if compare else [None] * len(own)
            for (place, _), reply, alone in zip(group, replies, others, strict=True):
                yield place, reply_json(reply, alone)

    def _replies(self, asks: Sequence[Ask], how: How) -> list[Reply]:
        pipeline = asks[0].pipeline
        joint = self._joint.decoded_by(self._joint.decoding.with_decoder(how.decoder, how.beta))
        pipeline = replace(pipeline, reranker=joint, k=how.k or pipeline.k)
        return list(replies_to(pipeline, [worded(ask.question) for ask in asks]))

    def _reranked(self, jobs: Sequence[Placed[Rerank]]) -> Iterator[Placed[Reranked]]:
        """Choose for those together that are to be chosen in the same way."""
        groups: dict[How, list[Placed[Rerank]]] = {}
        for place, job in jobs:
            how = replace(job.how, k=min(job.how.k or JOINTLY, JOINTLY))
            groups.setdefault(how, []).append((place, job))
        most = self._patient.batch
        for how, group in groups.items():
            for first in range(0, len(group), most):
                yield from self._chosen(group[first : first + most], how)

    def _chosen(self, jobs: Sequence[Placed[Rerank]], how: How) -> Iterator[Placed[Reranked]]:
        decoding = self._joint.decoding.with_decoder(how.decoder, how.beta)
        read = self._joint.consider([job.candidates for _, job in jobs])
        choices = list(read.choose(decoding, how.k or JOINTLY, explain=True))
        longest = max(len(job.candidates.hits) for _, job in jobs)
        alone = read.choose(Decoding(INDEPENDENT), longest, explain=False)
        for at, ((place, job), rest) in enumerate(zip(jobs, alone, strict=True)):
            hits, choice = job.candidates.hits, choices[at]
            every = _falling([*choice.ranking.hits, *rest.ranking.hits])
            yield (
                place,
                Reranked(
                    tuple(every.items())[: job.how.k or len(hits)],
                    choice.answers,
                    tree_json(tree_of(decoding, job.candidates, choice)),
                    self._patient.tokens[at],
                ),
            )


def _key(ask: Ask) -> tuple[str, str]:
    return ask.corpus, ask.question


def _search(ask: Ask) -> Search:
    return Search(ask.pipeline, ask.question, ask.pipeline.candidates)


def _falling(hits: Sequence[Hit]) -> dict[int, float]:
    """Return the places of candidates, each once, with probabilities that fall from 1 on.

    >>> from jpr.types import Passage
    >>> hits = [Hit(Passage(id, "", ""), score) for id, score in [("4", -1.0), ("2", 0.0)]]
    >>> _falling(hits) == {4: exp(-1), 2: nextafter(exp(-1), 0)}
    True
    """
    found: dict[int, float] = {}
    below = inf
    for hit in hits:
        if int(hit.passage.id) not in found:
            below = min(exp(hit.score), nextafter(below, 0.0))
            found[int(hit.passage.id)] = below
    return found
