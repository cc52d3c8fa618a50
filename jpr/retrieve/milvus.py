"""The same index past one machine: passages and their vectors in Milvus.

The folder holds only `milvus.json`, which says where everything is (`jpr.retrieve.milvus_build`
writes it). Filters are those of a local index (`jpr.retrieve.filters`): each passage carries its
terms in an array. The environment variable MILVUS_TOKEN, where it is set, is shown to the server.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.io.checksums import unsealed
from jpr.retrieve.engines import ENGINES, MILVUS
from jpr.retrieve.filters import Clauses, Filter, clauses
from jpr.stages import Encoder
from jpr.types import Hit, Passage, Question, Ranking

NAME = ENGINES[MILVUS].mark
FORMAT = 1
_MOST_K = 16_384
_BATCH = 64
"""Questions encoded and searched together."""
_SEGMENT = 250_000
"""Passages in a full segment: 512 MB of vectors and texts, about 2 kB each."""
_EF = 256
"""Passages that a search of the HNSW graph keeps in view, at least."""


@dataclass(frozen=True, slots=True)
class MilvusManifest:
    """What `milvus.json` says of an index."""

    uri: str
    """A server's address, or the path of a milvus-lite file, which ends in .db."""
    collection: str
    alias: str
    replaced: str
    """The collection before this one; dropped when this one was whole."""
    graph: str
    """How vectors are searched: `hnsw` or `ivf`."""
    passages: int
    source: str
    corpus_sha256: str
    fields: tuple[str, ...]
    """What a filter can ask for."""
    encoder: str
    """The folder of the encoder; empty for the one that comes with the package."""
    key: str
    """The encoder's key: questions must be encoded under the same."""
    dimension: int
    format: int = FORMAT

    @property
    def lists(self) -> int:
        """How many lists each segment of an IVF index has: Milvus indexes segment by segment."""
        return max(1, int(4 * min(self.passages, _SEGMENT) ** 0.5))


def read_contents(path: Path) -> MilvusManifest:
    """Read what a build wrote of itself."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] == FORMAT:
            plain: dict[str, Any] = unsealed(path, record)
            return MilvusManifest(**{**plain, "fields": tuple(record["fields"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(path, 0, f"cannot be read ({error}); build the index again") from error
    problem = f"is of format {record['format']}, this program reads {FORMAT}; build it again"
    raise FormatError(path, 0, problem)


def connect(uri: str) -> Any:  # noqa: ANN401  pymilvus has no types
    """Return a client of the server, or of the milvus-lite file, at this address."""
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingExtraError("an index in Milvus", "milvus") from error
    for logger in ("pymilvus", "grpc._server"):  # what they say, with tracebacks, is raised too
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with explained(uri):
        return MilvusClient(uri=uri, token=os.environ.get("MILVUS_TOKEN", ""))


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Say as an error of ours what Milvus refuses to do."""
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except MilvusException as error:
        raise ConfigError(f"{uri}: Milvus says: {error.message}") from error


class MilvusRetriever:
    """The passages in Milvus whose vectors have the largest inner product with the question's."""

    def __init__(
        self,
        folder: str | Path,
        encoder: Encoder | None = None,
        where: Filter | None = None,
        threads: int = 0,
    ) -> None:
        """Connect to what `milvus.json` names; its encoder is loaded unless one is given."""
        self.contents = read_contents(Path(folder) / NAME)
        self._encoder = encoder or _load_encoder(self.contents.encoder, threads)
        if self._encoder.key != self.contents.key:
            raise ConfigError(
                f"{folder}: the vectors are of encoder {self.contents.key}, not of "
                f"{self._encoder.key}; give the encoder that the index was built with"
            )
        self._asked = clauses(where, self.contents.fields) if where else ()
        self.key = f"milvus {_digest(self.contents)} {self._asked}"
        self._client = connect(self.contents.uri)
        with explained(self.contents.uri):
            self._client.load_collection(self.contents.collection)

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages for a question."""
        return next(self.retrieve_many([question], k))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order, some in one request."""
        if not 1 <= k <= _MOST_K:
            raise ConfigError(f"k = {k}: Milvus returns 1 to {_MOST_K:,} passages")
        rest = iter(questions)
        while batch := list(islice(rest, _BATCH)):
            for question, hits in zip(batch, self._search(batch, k), strict=True):
                yield Ranking(question, tuple(sorted(map(_hit, hits), key=_order)))

    def _search(self, batch: Sequence[Question], k: int) -> Any:  # noqa: ANN401
        if not all(self._asked):  # no value is accepted; Milvus has no expression for that
            return [[]] * len(batch)
        vectors = self._encoder.encode_questions([question.text for question in batch])
        with explained(self.contents.uri):
            return self._client.search(
                self.contents.collection,
                data=list(vectors),
                anns_field="vector",
                limit=k,
                filter=expression(self._asked),
                output_fields=["title", "text", "more", "meta"],
                search_params={"metric_type": "IP", "params": self._effort(k)},
                consistency_level="Eventually",  # nothing is written to it any more
            )

    def _effort(self, k: int) -> dict[str, int]:
        if self.contents.graph == "hnsw":
            return {"ef": max(_EF, 2 * k)}
        return {"nprobe": max(16, self.contents.lists // 16)}


def expression(asked: Clauses) -> str:
    """Return a filter as Milvus writes it; a string there is escaped as in JSON.

    >>> expression((("a=1", "a=2"), ("b=3",)))
    'array_contains_any(terms, ["a=1", "a=2"]) and array_contains_any(terms, ["b=3"])'
    """
    return " and ".join(f"array_contains_any(terms, {json.dumps(any_of)})" for any_of in asked)


def _load_encoder(folder: str, threads: int) -> Encoder:
    from jpr.encode.encoder_folder import load_encoder  # heavy

    return load_encoder(Path(folder) if folder else None, threads=threads)


def _digest(contents: MilvusManifest) -> str:
    return sha256(json.dumps(asdict(contents)).encode()).hexdigest()


def _hit(found: Any) -> Hit:  # noqa: ANN401  pymilvus has no types
    entity = found["entity"]
    text = entity["text"] + "".join(entity["more"])
    return Hit(Passage(found["id"], entity["title"], text, entity["meta"]), found["distance"])


def _order(hit: Hit) -> tuple[float, str]:
    return -hit.score, hit.passage.id
