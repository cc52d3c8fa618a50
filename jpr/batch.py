"""A stage over many questions, with its results in a file; a killed run resumes where it stopped.

Rankings are written as a run; the searches of a joint reranker go to a second file on request, a
JSON line each (`jpr.formats.replies`). A line of answers is
`{"id", "answers": [{"text", "log_prob", "support": [{"passage", "spans"}]}]}`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.formats.replies import answers_line, tree_line
from jpr.formats.runs import write_rankings
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.rerank.order import warn_if_cut
from jpr.stages import KeyedReader, KeyedReranker, Progress, Reader, Reranker, Retriever
from jpr.types import Answer, Question, Ranking, Reply

if TYPE_CHECKING:  # a diversifier works without the joint model's libraries
    from jpr.rerank.joint import JointReranker

BATCH = 8
"""Questions that a worker reranks or reads together; it equals the batch of rerankers that have
one, so that results do not depend on it."""


def retrieve_to_file(
    retriever: Retriever,
    questions: Sequence[Question],
    path: Path,
    k: int,
    *,
    key: str,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
) -> None:
    """Write k candidates for each question; `key` identifies the retriever and its index."""
    from jpr.retrieve.retrievers import BATCH as questions_together

    write_resumably(
        [path],
        _key([Ranking(question, ()) for question in questions], k, key),
        lambda done: run(partial(_retrieve, k=k), retriever, questions[done:], questions_together),
        _run_lines,
        progress,
    )


def rerank_to_file(
    reranker: KeyedReranker,
    rankings: Sequence[Ranking],
    path: Path,
    k: int,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
    *,
    trees: Path | None = None,
) -> None:
    """Write k passages for each question; the searches of a joint reranker to `trees`."""
    work = partial(_decode if trees else _rank, k=k)
    write_resumably(
        [path, trees] if trees else [path],
        _key(rankings, k, reranker.key),
        lambda done: run(work, reranker, rankings[done:], BATCH),
        _reply_lines if trees else _run_lines,
        progress,
    )


def read_to_file(
    reader: KeyedReader,
    rankings: Sequence[Ranking],
    path: Path,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
) -> None:
    """Write the answers to each question."""
    write_resumably(
        [path],
        _key(rankings, len(rankings), reader.key),
        lambda done: zip(rankings[done:], run(_read, reader, rankings[done:], BATCH), strict=True),
        lambda read: [answers_line(*read)],
        progress,
    )


def _retrieve(retriever: Retriever, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
    return retriever.retrieve_many(questions, k)


def _rank(reranker: Reranker, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
    return reranker.rank_many(rankings, k)


def _decode(reranker: "JointReranker", rankings: Iterable[Ranking], k: int) -> Iterator[Reply]:
    for reply in reranker.decode_many(rankings, k):
        warn_if_cut(bool(reply.truncated))
        yield reply


def _read(reader: Reader, rankings: Iterable[Ranking]) -> Iterator[tuple[Answer, ...]]:
    return reader.read_many(rankings)


def _run_lines(ranking: Ranking) -> list[str]:
    stream = StringIO()
    write_rankings([ranking], stream)
    return [stream.getvalue()]


def _reply_lines(reply: Reply) -> list[str]:
    return [*_run_lines(reply.ranking), tree_line(reply)]


def _key(rankings: Sequence[Ranking], k: int, key: str) -> str:
    """Return a hash of everything that the result depends on."""
    digest = hashlib.sha256(f"{key!r} {k}\n".encode())
    for ranking in rankings:
        question = ranking.question
        gold = (question.answers, question.annotations, question.regex)
        digest.update(repr((question.id, question.text, gold, len(ranking.hits))).encode())
        for hit in ranking.hits:
            passage = hit.passage
            # Titles and texts are long: their lengths keep them apart, and no repr is needed.
            whole = f"{len(passage.id)} {len(passage.title)} {len(passage.text)} {hit.score!r} "
            whole += f"{passage.id}{passage.title}{passage.text}"
            digest.update(whole.encode("utf-8", "surrogatepass"))
            digest.update(repr(passage.meta).encode())
    return digest.hexdigest()
