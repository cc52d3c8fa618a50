"""The engine `milvus`: a corpus encoded, uploaded in chunks, and switched to when complete.

A build fills a new collection; the old one serves until `milvus.json` names the new one. Then the
alias moves too, for direct users of Milvus, and the old collection is dropped. An interrupted build
resumes after the last chunk recorded in `milvus.part.json`; later passages are upserted again.
"""

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

from jpr.encode.encoder import Vectors
from jpr.encode.vectors import StoredVectors
from jpr.errors import ConfigError, DataError
from jpr.io.checksums import sealed
from jpr.io.json_files import write_json
from jpr.retrieve.engines import MILVUS, NO_ENCODER, IndexOptions, check_engine
from jpr.retrieve.filters import Filter
from jpr.retrieve.milvus_retriever import (
    NAME,
    MilvusManifest,
    MilvusRetriever,
    collection_schema,
    connect,
    milvus_errors,
    read_milvus_manifest,
    row_of,
)
from jpr.retrieve.versions import only_writer
from jpr.stages import Encoder, batched
from jpr.types import Passage

_PART = "milvus.part.json"
_CHUNK = 2_048  # passages encoded together and then recorded as done
_REQUEST = 8_000_000  # bytes of text in one request: a server accepts 64 MB, vectors included
_EMPTY: dict[str, Any] = {"collection": "", "passages": 0, "corpus_sha256": "", "fields": ()}
"""What a build that has not begun holds."""
_OTHER_CORPUS = (
    "the interrupted build was of another corpus and has been dropped; run the command again to "
    "start from scratch"
)
GRAPHS = {"hnsw": "HNSW", "ivf": "IVF_SQ8"}
"""The types of vector index, with Milvus's names for them."""


def build(passages: Iterable[Passage], options: IndexOptions) -> str:
    """Upload a corpus with its vectors, stored or of the encoder, and write `milvus.json`."""
    uri, folder, settings = options.uri, options.folder, options.settings
    alias, graph = settings.collection or "jpr", settings.graph or "hnsw"
    if uri is None:
        raise ConfigError("engine milvus needs the address of a server, or a file x.db: --milvus")
    if options.encoder == NO_ENCODER:
        raise ConfigError("Milvus holds vectors; give an encoder or --vectors instead of none")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,200}", alias):
        raise ConfigError(f"collection {alias!r}: use letters, digits and _, a letter first")
    if graph not in GRAPHS:
        raise ConfigError(f"graph {graph!r}: choose {' or '.join(GRAPHS)}")
    check_engine(folder, MILVUS)
    old = read_milvus_manifest(folder / NAME) if (folder / NAME).exists() else None
    encoder, stored = options.load_encoder(), options.stored
    start = MilvusManifest(
        uri=str(Path(uri).resolve()) if uri.endswith(".db") else uri,
        alias=alias,
        replaced=old.collection if old else "",
        graph=graph,
        source=options.source,
        encoder=options.encoder_folder,
        key=encoder.key,
        dimension=encoder.dimension,
        **_EMPTY,
    )
    client = connect(start.uri)
    with only_writer(folder), milvus_errors(start.uri):
        upload = _Upload(folder, client, start)
        upload.fill(passages, encoder, stored)
        made = upload.publish(old)
    return f"indexed {made.passages:,} passages in Milvus at {uri}"


def open_retriever(
    folder: Path, kind: str | None, encoder: Encoder | None, where: Filter | None, threads: int
) -> MilvusRetriever:
    """Connect to the collection of an index."""
    if kind not in (None, "dense"):
        raise ConfigError(f"{folder}: an index in Milvus is dense only; use the retriever dense")
    return MilvusRetriever(folder, encoder, where, threads)


class _Upload:
    """A collection that is being filled; `milvus.part.json` records how far it is."""

    def __init__(self, folder: Path, client: Any, start: MilvusManifest) -> None:  # noqa: ANN401
        # Resume an interrupted build of the same settings, or create a collection.
        self._folder, self._client, self._state = folder, client, start
        if start.alias in client.list_collections():
            raise ConfigError(f"{start.uri}: {start.alias} is a collection; choose another name")
        part = read_milvus_manifest(folder / _PART) if (folder / _PART).exists() else None
        if part and (part.uri != start.uri or not client.has_collection(part.collection)):
            part = None
        if part and start == replace(part, **_EMPTY):
            self._state = part
            return
        if part:
            client.drop_collection(part.collection)
        self._state = replace(start, collection=f"{start.alias}_{secrets.token_hex(4)}")
        client.create_collection(self._state.collection, schema=collection_schema(start.dimension))
        self._record(_PART)

    def _record(self, name: str) -> None:
        write_json(self._folder / name, sealed(asdict(self._state)))

    def fill(
        self, passages: Iterable[Passage], encoder: Encoder, stored: StoredVectors | None
    ) -> None:
        digest, fields, n, done = sha256(), {"title"}, 0, self._state.passages
        rest = islice(chain.from_iterable(stored.blocks()), done, None) if stored else None
        for chunk in batched(passages, _CHUNK):
            records = (json.dumps([p.id, p.title, p.text, p.meta]) for p in chunk)
            digest.update("".join(records).encode())
            fields.update(*(p.meta for p in chunk))
            n += len(chunk)
            if n == done and digest.hexdigest() != self._state.corpus_sha256:
                raise self._dropped(_OTHER_CORPUS)
            if n > done:
                self._upsert(chunk, encoder, rest)
                self._state = replace(self._state, passages=n, corpus_sha256=digest.hexdigest())
                if len(chunk) == _CHUNK:  # a shorter one is the last, and may yet grow
                    self._record(_PART)
        if n < done:
            raise self._dropped(_OTHER_CORPUS)
        if not n:
            raise self._dropped("the corpus has no passages; was its download cut short?")
        self._state = replace(self._state, fields=tuple(sorted(fields)))

    def _upsert(
        self, chunk: Sequence[Passage], encoder: Encoder, stored: Iterator[Vectors] | None
    ) -> None:
        rows = [row_of(passage) for passage in chunk]
        # A server keeps both if a request has an id twice; the final count would not notice.
        id, times = Counter(passage.id for passage in chunk).most_common(1)[0]
        if times > 1:
            raise DataError(f"passage id {id!r} occurs twice in the corpus; ids must differ")
        vectors = list(islice(stored, len(chunk))) if stored else encoder.encode_passages(chunk)
        request: list[dict[str, object]] = []
        size = 0
        for row, passage, vector in zip(rows, chunk, vectors, strict=True):
            if size > _REQUEST:
                self._client.upsert(self._state.collection, request)
                request, size = [], 0
            request.append({**row, "vector": vector})
            size += len(passage.text)
        self._client.upsert(self._state.collection, request)

    def _dropped(self, problem: str) -> DataError:
        """Drop the collection and return the error that says why."""
        self._client.drop_collection(self._state.collection)
        (self._folder / _PART).unlink()
        return DataError(problem)

    def publish(self, old: MilvusManifest | None) -> MilvusManifest:
        from pymilvus.exceptions import MilvusException

        client, made = self._client, self._state
        client.flush(made.collection)
        kind, index = GRAPHS[made.graph], client.prepare_index_params()
        options = {"nlist": made.lists} if made.graph == "ivf" else {"M": 16, "efConstruction": 200}
        index.add_index("vector", index_type=kind, metric_type="IP", params=options)
        client.create_index(made.collection, index)
        client.load_collection(made.collection)
        (counted,) = client.query(
            made.collection, output_fields=["count(*)"], consistency_level="Strong"
        )
        if counted["count(*)"] != made.passages:
            counts = f"{made.passages:,} passages but {counted['count(*)']:,} distinct ids"
            raise self._dropped(f"the corpus has {counts}; ids must differ")
        self._record(NAME)
        (self._folder / _PART).unlink()
        try:
            client.alter_alias(made.collection, made.alias)
        except MilvusException:  # no such alias yet
            client.create_alias(made.collection, made.alias)
        if old and old.uri == made.uri:
            for name in filter(None, (old.collection, old.replaced)):  # the latter after a kill
                client.drop_collection(name)
        return made
