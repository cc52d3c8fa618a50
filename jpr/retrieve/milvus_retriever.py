"""Search in Milvus, for an index larger than one machine, and how a passage is stored there.

The folder holds only `milvus.json`, which says where the collection is (`jpr.retrieve.milvus`
writes it). Filters are those of a local index: each passage has its terms in an array. The
environment variable MILVUS_TOKEN, if set, is sent to the server.

A string field holds 65,535 bytes: the rest of a longer text is in `more`. No array is empty,
because milvus-lite 3.2 loses a column of arrays whose first one is.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jpr.encode.encoder_folder import load_encoder
from jpr.errors import ConfigError, DataError, needs_extra
from jpr.io.settings import read_sealed
from jpr.retrieve.engines import ENGINES, MILVUS
from jpr.retrieve.filters import Clauses, Filter, clauses, terms
from jpr.stages import Encoder, Retriever, batched
from jpr.types import Hit, Passage, Question, Ranking

NAME = ENGINES[MILVUS].marker
FORMAT = 1
_MAX_K = 16_384
_BATCH = 64  # questions encoded and searched together
_STRING, _PIECES, _META, _TERMS = 65_535, 500, 65_536, 4_096
"""Limits: bytes of a string, pieces of a text, bytes of meta as JSON, terms of a passage."""


@dataclass(frozen=True, slots=True)
class MilvusManifest:
    """`milvus.json`: where an index is and what it holds."""

    uri: str  # address of a server, or path of a milvus-lite file, which ends in .db
    collection: str
    alias: str
    replaced: str  # the previous collection, dropped when this one was complete
    graph: str  # how vectors are searched: `hnsw` or `ivf`
    passages: int
    source: str
    corpus_sha256: str
    fields: tuple[str, ...]  # fields that a filter can use
    encoder: str  # folder of the encoder; empty for the bundled one
    key: str  # the encoder's key: questions must be encoded with the same
    dimension: int
    format: int = FORMAT

    @property
    def lists(self) -> int:
        """Lists in each segment of an IVF index: Milvus indexes segment by segment."""
        full = 250_000  # passages: 512 MB of vectors and texts, about 2 kB each
        return max(1, int(4 * min(self.passages, full) ** 0.5))


def read_milvus_manifest(path: Path) -> MilvusManifest:
    """Read what a build recorded."""
    return read_sealed(MilvusManifest, path, FORMAT)


def connect(uri: str) -> Any:  # noqa: ANN401  pymilvus has no types
    """Return a client of the server, or of the milvus-lite file, at this address."""
    with needs_extra("an index in Milvus", "milvus"):
        from pymilvus import MilvusClient
    for logger in ("pymilvus", "grpc._server"):  # they log, with tracebacks, what they raise too
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with milvus_errors(uri):
        return MilvusClient(uri=uri, token=os.environ.get("MILVUS_TOKEN", ""))


@contextmanager
def milvus_errors(uri: str) -> Iterator[None]:
    """Raise the errors of Milvus as ConfigError."""
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except MilvusException as error:
        raise ConfigError(f"{uri}: Milvus error: {error.message}") from error


class MilvusRetriever(Retriever):
    """The passages in Milvus whose vectors have the largest inner product with the question's."""

    def __init__(
        self,
        folder: str | Path,
        encoder: Encoder | None = None,
        where: Filter | None = None,
        threads: int = 0,
    ) -> None:
        """Connect to the collection that `milvus.json` names; load its encoder if none is given."""
        manifest = self.manifest = read_milvus_manifest(Path(folder) / NAME)
        self._encoder = encoder or load_encoder(manifest.encoder or None, threads=threads)
        if self._encoder.key != manifest.key:
            raise ConfigError(
                f"{folder}: vectors of encoder {manifest.key}, not of {self._encoder.key}; use the "
                "encoder that the index was built with"
            )
        self._clauses = clauses(where, manifest.fields)
        digest = sha256(json.dumps(asdict(manifest)).encode()).hexdigest()
        self.key = f"milvus {digest} {self._clauses}"
        self._client = connect(manifest.uri)
        with milvus_errors(manifest.uri):
            self._client.load_collection(manifest.collection)

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return the k best passages for each question, in their order, several per request."""
        if not 1 <= k <= _MAX_K:
            raise ConfigError(f"k = {k}: Milvus returns 1 to {_MAX_K:,} passages")
        for batch in batched(questions, _BATCH):
            for question, found in zip(batch, self._search(batch, k), strict=True):
                hits = sorted(map(_hit, found), key=lambda hit: (-hit.score, hit.passage.id))
                yield Ranking(question, tuple(hits))

    def _search(self, batch: Sequence[Question], k: int) -> Any:  # noqa: ANN401
        if not all(self._clauses):  # nothing is accepted; Milvus has no expression for that
            return [[]] * len(batch)
        vectors = self._encoder.encode_questions([question.text for question in batch])
        effort = {"nprobe": max(16, self.manifest.lists // 16)}
        if self.manifest.graph == "hnsw":
            effort = {"ef": max(256, 2 * k)}  # candidates that the search keeps
        with milvus_errors(self.manifest.uri):
            return self._client.search(
                self.manifest.collection,
                data=list(vectors),
                anns_field="vector",
                limit=k,
                filter=expression(self._clauses),
                output_fields=["title", "text", "more", "meta"],
                search_params={"metric_type": "IP", "params": effort},
                consistency_level="Eventually",  # a complete collection is never written to
            )


def expression(where: Clauses) -> str:
    """Return a filter as a Milvus expression, whose strings are escaped as in JSON.

    >>> expression((("a=1", "a=2"), ("b=3",)))
    'array_contains_any(terms, ["a=1", "a=2"]) and array_contains_any(terms, ["b=3"])'
    """
    return " and ".join(f"array_contains_any(terms, {json.dumps(any_of)})" for any_of in where)


def collection_schema(dimension: int) -> Any:  # noqa: ANN401  pymilvus has no types
    """Return the fields of a collection."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    strings = {"element_type": DataType.VARCHAR, "max_length": _STRING}
    for name in ("id", "title", "text"):
        schema.add_field(name, DataType.VARCHAR, is_primary=name == "id", max_length=_STRING)
    schema.add_field("more", DataType.ARRAY, max_capacity=_PIECES, **strings)
    schema.add_field("meta", DataType.JSON)
    schema.add_field("terms", DataType.ARRAY, max_capacity=_TERMS, **strings)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    return schema


def row_of(passage: Passage) -> dict[str, object]:
    """Return a passage as Milvus stores it; one beyond its limits is an error."""
    if not passage.id:
        raise DataError("a passage has an empty id; give every passage an id")
    try:
        id, title, body = (text.encode() for text in (passage.id, passage.title, passage.text))
    except UnicodeEncodeError as error:
        problem = "an unpaired surrogate, which Milvus cannot store; remove it"
        raise DataError(f"passage {passage.id!r:.60}: {problem}") from error
    text, *more = _pieces(body)
    labels = ["", *terms(passage)]
    sizes = {
        "id": (len(id), _STRING, "bytes"),
        "title": (len(title), _STRING, "bytes"),
        "text": (len(more), _PIECES, f"times {_STRING:,} bytes"),
        "meta": (len(json.dumps(passage.meta)), _META, "bytes of JSON"),
        "meta, with list items,": (len(labels), _TERMS, "values"),
    }
    for what, (size, limit, unit) in sizes.items():
        if size > limit:
            problem = f"its {what} is {size:,} {unit} long; Milvus stores at most {limit:,}"
            raise DataError(f"passage {passage.id!r:.60}: {problem}; shorten it")
    head = {"id": passage.id, "title": passage.title, "meta": dict(passage.meta)}
    return {**head, "text": text, "more": more or [""], "terms": labels}


def _pieces(text: bytes) -> Iterator[str]:
    """Cut UTF-8 into strings of at most `_STRING` bytes, between characters."""
    start = 0
    while len(text) - start > _STRING:
        piece = text[start : start + _STRING].decode(errors="ignore")  # it may end in a character
        yield piece
        start += len(piece.encode())
    yield text[start:].decode()


def _hit(found: Any) -> Hit:  # noqa: ANN401  pymilvus has no types
    stored = found["entity"]
    text = stored["text"] + "".join(stored["more"])
    return Hit(Passage(found["id"], stored["title"], text, stored["meta"]), found["distance"])
