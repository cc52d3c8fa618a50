"""A question's answers, the passages that say them, and how these were chosen: all in one record.

A pipeline's outcome (`jpr.pipeline`) and the tree of the search come from one reading of the
candidates. An open question keeps what was read, so that another reply, by another β, decoder or k,
takes milliseconds.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from math import exp, isfinite
from threading import Lock

from jpr.decode import Decoded, Node
from jpr.errors import ConfigError
from jpr.pipeline import Pipeline, worded
from jpr.read.spans import SpanReader
from jpr.rerank.batch import tree_nodes
from jpr.rerank.consider import Considered
from jpr.rerank.decoding import TREES, Decoding
from jpr.rerank.explain import Choice
from jpr.rerank.joint import JointReranker
from jpr.types import Answer, Passage, Question, Ranking

INDEPENDENT = "independent"
"""The decoder that takes each passage by itself: what a joint choice is compared with."""


@dataclass(frozen=True, slots=True)
class Tree:
    """How passages were chosen."""

    decoder: str
    """Empty where the reranker is no joint model, and there is nothing to say."""
    beta: float | None
    """None where the decoder has none."""
    candidates: Ranking
    """What was chosen from; nodes number its hits from 0."""
    choice: Choice

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The expansions of the search, in the order in which it made them."""
        return self.choice.decoded.nodes

    @property
    def depths(self) -> tuple[int, ...]:
        """Of each chosen passage the depth at which it was found, from 1."""
        found = tuple(len(node.prefix) + 1 for node in self.nodes if node.is_new)
        return found or (1,) * len(self.choice.ranking.hits)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a question is answered with."""

    question: str
    answers: tuple[Answer, ...]
    """Likeliest first."""
    ranking: Ranking
    """The chosen passages."""
    tree: Tree

    @property
    def holds(self) -> tuple[tuple[int, ...], ...]:
        """Of each chosen passage the answers that it contains, by their places from 0."""
        supports = [{one.passage.id for one in answer.support} for answer in self.answers]
        return tuple(
            tuple(at for at, ids in enumerate(supports) if hit.passage.id in ids)
            for hit in self.ranking.hits
        )

    @property
    def adds(self) -> tuple[tuple[str, ...], ...]:
        """Of each chosen passage the answers that it has and no earlier one."""
        seen: set[int] = set()
        found = []
        for held in self.holds:
            found.append(tuple(self.answers[at].text for at in held if at not in seen))
            seen.update(held)
        return tuple(found)


def reply_to(
    pipeline: Pipeline,
    question: str,
    *,
    beta: float | None = None,
    decoder: str | None = None,
    k: int | None = None,
) -> Reply:
    """Answer a question; without β, decoder or k, as the pipeline does. β alone asks for a tree."""
    return open_question(pipeline, question).reply(beta=beta, decoder=decoder, k=k)


async def reply_to_async(
    pipeline: Pipeline,
    question: str,
    *,
    beta: float | None = None,
    decoder: str | None = None,
    k: int | None = None,
) -> Reply:
    """Do the same in a thread, while others are served."""
    return await asyncio.to_thread(reply_to, pipeline, question, beta=beta, decoder=decoder, k=k)


def replies_to(pipeline: Pipeline, questions: Iterable[Question]) -> Iterator[Reply]:
    """Answer many questions as the pipeline does, in their order, in batches where that pays."""
    asked = (_checked(question) for question in questions)
    given, read = tee(pipeline.retriever.retrieve_many(asked, pipeline.candidates))
    reranker = pipeline.reranker
    if isinstance(reranker, JointReranker):
        for found, choice in zip(given, reranker.decode_many(read, pipeline.k), strict=True):
            yield _reply(pipeline, tree_of(reranker.decoding, found, choice))
        return
    for found, ranking in zip(given, reranker.rank_many(read, pipeline.k), strict=True):
        yield _reply(pipeline, _plain(found, ranking))


def open_question(pipeline: Pipeline, question: str) -> "OpenQuestion":
    """Find a question's candidates, to reply in several ways."""
    found = pipeline.retriever.retrieve(worded(question), pipeline.candidates)
    return OpenQuestion(pipeline, found)


class OpenQuestion:
    """A question whose candidates were found; a model reads them once, if it can keep that.

    Threads may share it.
    """

    def __init__(self, pipeline: Pipeline, candidates: Ranking) -> None:
        """Take what was found."""
        self._pipeline, self.candidates = pipeline, candidates
        self._lock = Lock()
        self._read: Considered | None = None

    def reply(
        self, *, beta: float | None = None, decoder: str | None = None, k: int | None = None
    ) -> Reply:
        """Answer, with another β, decoder or k where they are given."""
        reranker = self._pipeline.reranker
        count = self._pipeline.k if k is None else k
        if count < 1:
            raise ConfigError(f"k = {count}; ask for at least one passage")
        if not isinstance(reranker, JointReranker):
            if beta is not None or decoder is not None:
                raise ConfigError("β and decoders are for a joint model; leave them out")
            given = self.candidates
            ranking = reranker.rank(given.question, given.hits, count)
            return _reply(self._pipeline, _plain(given, ranking))
        decoding = reranker.decoding.with_decoder(decoder, beta)
        with self._lock:
            choice = self._choice(reranker, decoding, count)
        return _reply(self._pipeline, tree_of(decoding, self.candidates, choice))

    def _choice(self, reranker: JointReranker, decoding: Decoding, k: int) -> Choice:
        if not self.candidates.hits:
            return Choice(self.candidates, Decoded(()))
        read = self._read or reranker.consider([self.candidates])
        if read.stays_open:
            self._read = read
        return next(read.choose(decoding, k, explain=True))


def _checked(question: Question) -> Question:
    worded(question.text)
    return question


def tree_of(decoding: Decoding, candidates: Ranking, choice: Choice) -> Tree:
    """Return how a joint model chose from candidates."""
    beta = decoding.beta if decoding.decoder in TREES else None
    return Tree(decoding.decoder, beta, candidates, choice)


def _plain(candidates: Ranking, ranking: Ranking) -> Tree:
    return Tree("", None, candidates, Choice(ranking, Decoded(())))


def _reply(pipeline: Pipeline, tree: Tree) -> Reply:
    ranking = tree.choice.ranking
    return Reply(ranking.question.text, _answers(pipeline, tree.choice), ranking, tree)


def _answers(pipeline: Pipeline, choice: Choice) -> tuple[Answer, ...]:
    """Take the answers that the reranker read, if the reader is the same model."""
    match pipeline.reranker, pipeline.reader:
        case JointReranker() as joint, SpanReader() as spans if spans.reads_for(joint):
            return spans.kept(choice.answers)
    return pipeline.reader.read(choice.ranking).answers


def reply_json(reply: Reply, independent: Reply | None = None) -> dict[str, object]:
    """Return a reply as JSON has it, and one to compare with: `docs/ask.md` says what all means."""
    told: dict[str, object] = {
        "question": reply.question,
        "answers": answers_json(reply),
        "passages": passages_json(reply),
        "tree": tree_json(reply.tree) | {"titles": _titles(reply.tree)},
    }
    if independent is None:
        return told
    beside = {"answers": answers_json(independent), "passages": passages_json(independent)}
    return {**told, "independent": beside}


def answers_json(reply: Reply) -> list[dict[str, object]]:
    """Return the answers as JSON has them."""
    return [
        {
            "text": answer.text,
            "score": round(exp(answer.log_prob), 4) if isfinite(answer.log_prob) else None,
            "passages": [one.passage.id for one in answer.support],
        }
        for answer in reply.answers
    ]


def passages_json(reply: Reply) -> list[dict[str, object]]:
    """Return the chosen passages as JSON has them."""
    hits, depths = reply.ranking.hits, reply.tree.depths
    return [
        {
            "id": hit.passage.id,
            "title": hit.passage.title,
            "text": hit.passage.text,
            "score": hit.score if isfinite(hit.score) else None,
            "depth": depth,
            "spans": _spans(reply.answers, hit.passage),
            "adds": list(adds),
            **({"meta": dict(hit.passage.meta)} if hit.passage.meta else {}),
        }
        for hit, depth, adds in zip(hits, depths, reply.adds, strict=True)
    ]


def _spans(answers: Sequence[Answer], passage: Passage) -> list[dict[str, int]]:
    return [
        {"answer": at, "start": start, "end": end}
        for at, answer in enumerate(answers)
        for one in answer.support
        if one.passage.id == passage.id
        for start, end in one.spans
    ]


def tree_json(tree: Tree) -> dict[str, object]:
    """Return a tree as JSON has it; passages are named by their ids."""
    nodes = tree_nodes(tree.candidates, tree.choice)
    return {"decoder": tree.decoder, "beta": tree.beta, "nodes": nodes}


def _titles(tree: Tree) -> dict[str, str]:
    """Return the titles of all passages that the tree names, by their ids."""
    named = {
        place
        for node in tree.nodes
        for place in (node.passage, *(other for _, other, _ in node.instead_of))
    }
    passages = [tree.candidates.hits[place].passage for place in sorted(named)]
    return {passage.id: passage.title for passage in passages}
