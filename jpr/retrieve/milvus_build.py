"""A corpus into Milvus: encoded, uploaded in chunks, switched to when it is whole.

A build fills a new collection; the old one serves until the new one is whole and `milvus.json`
names it. Then the alias moves too, for whoever asks Milvus directly, and the old collection is
dropped. An interrupted build goes on after the last chunk that it recorded in `milvus.part.json`;
what came after that is written once more, by id.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError
from jpr.io.atomic import publish
from jpr.io.checksums import sealed
from jpr.retrieve.engines import MILVUS, check_engine
from jpr.retrieve.milvus import (
    NAME,
    MilvusManifest,
    connect,
    explained,
    read_contents,
)
from jpr.retrieve.milvus_schema import GRAPHS, index_of, refuse_repeated, row_of, schema_of
from jpr.retrieve.versions import only_writer
from jpr.stages import Encoder, Progress
from jpr.types import Passage

if TYPE_CHECKING:  # needs faiss
    from jpr.retrieve.dense import VectorSource

_PART = "milvus.part.json"
_CHUNK = 2_048
"""Passages encoded together and then recorded as done."""
_PACKET = 8_000_000
"""Bytes of text in one request: a server takes 64 MB, vectors and all."""

VectorsOfNext = Callable[[Sequence[Passage]], NDArray[np.float32]]
"""Returns the vectors of the passages that come next."""


class CorpusVectors(Protocol):
    """Where the vectors of a corpus come from: `Encoded` or `Stored`."""

    @property
    def key(self) -> str:
        """The key of the encoder."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def count(self) -> int | None:
        """How many there are, where that is known."""

    def after(self, done: int) -> VectorsOfNext:
        """Begin behind the first `done` passages of the corpus."""


class Encoded:
    """Vectors that an encoder makes on the way."""

    def __init__(self, encoder: Encoder) -> None:
        """Ask `encoder` for each chunk."""
        self.key, self.dimension, self.count = encoder.key, encoder.dimension, None
        self._encoder = encoder

    def after(self, done: int) -> VectorsOfNext:
        """Encode whatever comes next."""
        return self._encoder.encode_passages


class Stored:
    """Vectors that were made before, such as by `jpr encode`, in the order of the corpus."""

    def __init__(self, source: "VectorSource") -> None:
        """Read them from `source`."""
        self.key, self.dimension, self.count = source.key, source.dimension, len(source)
        self._source = source

    def after(self, done: int) -> VectorsOfNext:
        """Read past the first vectors."""
        each = islice((vector for block in self._source.blocks() for vector in block), done, None)

        def vectors_of(chunk: Sequence[Passage]) -> NDArray[np.float32]:
            found = list(islice(each, len(chunk)))
            if len(found) < len(chunk):
                raise DataError(f"there are only {len(self._source):,} vectors; encode again")
            return np.stack(found)

        return vectors_of


def build_milvus(
    passages: Iterable[Passage],
    folder: Path,
    vectors: "CorpusVectors",
    *,
    uri: str,
    alias: str = "jpr",
    graph: str = "hnsw",
    source: str,
    encoder_folder: str = "",
    progress: Progress = lambda _: None,
) -> MilvusManifest:
    """Bring a corpus and its vectors into Milvus, and say in the folder where they are."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,200}", alias):
        raise ConfigError(f"collection {alias!r}: use letters, digits and _, a letter first")
    if graph not in GRAPHS:
        raise ConfigError(f"graph {graph!r}: choose {' or '.join(GRAPHS)}")
    check_engine(folder, MILVUS)
    old = read_contents(folder / NAME) if (folder / NAME).exists() else None
    wanted = MilvusManifest(
        uri=str(Path(uri).resolve()) if uri.endswith(".db") else uri,
        collection="",
        alias=alias,
        replaced=old.collection if old else "",
        graph=graph,
        passages=0,
        source=source,
        corpus_sha256="",
        fields=(),
        encoder=encoder_folder,
        key=vectors.key,
        dimension=vectors.dimension,
    )
    build = _Build(folder, wanted)
    with only_writer(folder), explained(wanted.uri):
        build.begin()
        build.fill(passages, vectors, progress)
        return build.publish(old)


class _Build:
    """A collection in the making."""

    def __init__(self, folder: Path, wanted: MilvusManifest) -> None:
        self._folder, self._state = folder, wanted
        self._client = connect(wanted.uri)

    def begin(self) -> None:
        """Go on with a build that was interrupted, or start one in a collection of its own."""
        wanted = self._state
        if wanted.alias in self._client.list_collections():
            raise ConfigError(f"{wanted.uri}: {wanted.alias} is a collection; choose another name")
        part = self._interrupted()
        if part and wanted == replace(part, collection="", passages=0, corpus_sha256="", fields=()):
            self._state = part
            return
        if part:
            self._client.drop_collection(part.collection)
        self._state = replace(wanted, collection=f"{wanted.alias}_{secrets.token_hex(4)}")
        self._client.create_collection(self._state.collection, schema=schema_of(wanted.dimension))
        self._record(_PART)

    def _interrupted(self) -> MilvusManifest | None:
        path = self._folder / _PART
        part = read_contents(path) if path.exists() else None
        there = part and part.uri == self._state.uri
        return part if there and part and self._client.has_collection(part.collection) else None

    def _record(self, name: str) -> None:
        with publish(self._folder / name) as stream:
            stream.write(json.dumps(sealed(asdict(self._state)), indent=1) + "\n")

    def fill(
        self, passages: Iterable[Passage], vectors: "CorpusVectors", progress: Progress
    ) -> None:
        """Upload what is not there yet."""
        digest, fields, n, done = sha256(), {"title"}, 0, self._state.passages
        vectors_of = vectors.after(done)
        rest = iter(passages)
        while chunk := list(islice(rest, _CHUNK)):
            for passage in chunk:
                digest.update(_line(passage))
                fields.update(passage.meta)
            n += len(chunk)
            if n == done and digest.hexdigest() != self._state.corpus_sha256:
                raise self._other_corpus()
            if n > done:
                self._upload(chunk, vectors_of)
                self._state = replace(self._state, passages=n, corpus_sha256=digest.hexdigest())
            if n > done and len(chunk) == _CHUNK:  # a last chunk that is not full may yet grow
                self._record(_PART)
            progress(len(chunk))
        self._check_end(n, done, vectors.count)
        self._state = replace(self._state, fields=tuple(sorted(fields)))

    def _check_end(self, n: int, done: int, n_vectors: int | None) -> None:
        if n < done:
            raise self._other_corpus()
        if not n:
            self._abandon()
            raise DataError("the corpus holds no passage; was its download cut short?")
        if n_vectors not in (None, n):
            raise DataError(f"there are {n_vectors:,} vectors for {n:,} passages; encode again")

    def _upload(self, chunk: Sequence[Passage], vectors_of: VectorsOfNext) -> None:
        rows = [row_of(passage) for passage in chunk]
        refuse_repeated(chunk)
        packet: list[dict[str, object]] = []
        size = 0
        for row, passage, vector in zip(rows, chunk, vectors_of(chunk), strict=True):
            if size > _PACKET:
                self._client.upsert(self._state.collection, packet)
                packet, size = [], 0
            packet.append({**row, "vector": vector})
            size += len(passage.text)
        self._client.upsert(self._state.collection, packet)

    def _abandon(self) -> None:
        self._client.drop_collection(self._state.collection)
        (self._folder / _PART).unlink()

    def _other_corpus(self) -> DataError:
        self._abandon()
        return DataError(
            "the build that was interrupted was of another corpus and is thrown away now; give "
            "the command again to start anew"
        )

    def publish(self, old: MilvusManifest | None) -> MilvusManifest:
        """Index the vectors, check the count, and put the collection in the old one's place."""
        client, whole = self._client, self._state
        client.flush(whole.collection)
        client.create_index(whole.collection, index_of(client, whole))
        client.load_collection(whole.collection)
        (counted,) = client.query(
            whole.collection, output_fields=["count(*)"], consistency_level="Strong"
        )
        if counted["count(*)"] != whole.passages:
            self._abandon()
            raise DataError(
                f"the corpus has {whole.passages:,} passages but {counted['count(*)']:,} distinct "
                "ids; ids must differ"
            )
        self._record(NAME)
        (self._folder / _PART).unlink()
        _move_alias(client, whole)
        if old and old.uri == whole.uri:
            for name in filter(None, (old.collection, old.replaced)):  # the latter after a kill
                client.drop_collection(name)
        return whole


def _move_alias(client: Any, whole: MilvusManifest) -> None:  # noqa: ANN401
    from pymilvus.exceptions import MilvusException

    try:
        client.alter_alias(whole.collection, whole.alias)
    except MilvusException:  # there is none yet
        client.create_alias(whole.collection, whole.alias)


def _line(passage: Passage) -> bytes:
    """Return all that is known of a passage, to be hashed."""
    record = [passage.id, passage.title, passage.text, passage.meta]
    return json.dumps(record).encode()
