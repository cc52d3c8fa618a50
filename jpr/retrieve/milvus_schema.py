"""How a passage is stored in Milvus, and what Milvus cannot store.

A string holds 65,535 bytes at most: the rest of a longer text stands in `more`. Filters look into
`terms` (`jpr.retrieve.filters`). No array is empty, because milvus-lite 3.2 loses a column of
arrays whose first one is.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from jpr.errors import DataError
from jpr.retrieve.filters import terms
from jpr.retrieve.milvus import MilvusManifest
from jpr.types import Passage

_LONGEST = 65_535
_PIECES = 500
_META = 65_536
_TERMS = 4_096
GRAPHS = {"hnsw": "HNSW", "ivf": "IVF_SQ8"}
"""The kinds of index over vectors, and Milvus's names for them."""


def schema_of(dimension: int) -> Any:  # noqa: ANN401  pymilvus has no types
    """Return the fields of a collection."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    strings = {"element_type": DataType.VARCHAR, "max_length": _LONGEST}
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=_LONGEST)
    schema.add_field("title", DataType.VARCHAR, max_length=_LONGEST)
    schema.add_field("text", DataType.VARCHAR, max_length=_LONGEST)
    schema.add_field("more", DataType.ARRAY, max_capacity=_PIECES, **strings)
    schema.add_field("meta", DataType.JSON)
    schema.add_field("terms", DataType.ARRAY, max_capacity=_TERMS, **strings)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    return schema


def index_of(client: Any, whole: MilvusManifest) -> Any:  # noqa: ANN401
    """Return how the vectors of a collection are to be searched."""
    params = {"hnsw": {"M": 16, "efConstruction": 200}, "ivf": {"nlist": whole.lists}}
    index = client.prepare_index_params()
    index.add_index(
        "vector",
        index_type=GRAPHS[whole.graph],
        metric_type="IP",
        params=params[whole.graph],
    )
    return index


def row_of(passage: Passage) -> dict[str, object]:
    """Return a passage as Milvus stores it, refusing what it cannot store."""
    if not passage.id:
        raise DataError("a passage has an empty id; give every passage an id")
    text, *more = _pieces(passage.text, passage.id)
    labels = ["", *terms(passage)]
    sizes = {
        "id": (len(_utf8(passage.id, passage.id)), _LONGEST, "bytes"),
        "title": (len(_utf8(passage.title, passage.id)), _LONGEST, "bytes"),
        "text": (len(more), _PIECES, f"times {_LONGEST:,} bytes"),
        "meta": (len(json.dumps(passage.meta)), _META, "bytes of JSON"),
        "meta, each item counted,": (len(labels), _TERMS, "values"),
    }
    for what, (size, most, unit) in sizes.items():
        if size > most:
            raise DataError(
                f"passage {passage.id!r:.60}: its {what} is {size:,} {unit} long, and Milvus "
                f"holds {most:,}; shorten it"
            )
    return {
        "id": passage.id,
        "title": passage.title,
        "text": text,
        "more": more or [""],
        "meta": dict(passage.meta),
        "terms": labels,
    }


def refuse_repeated(chunk: Sequence[Passage]) -> None:
    """Find what the count cannot: a server keeps both where one request holds an id twice."""
    id, times = Counter(passage.id for passage in chunk).most_common(1)[0]
    if times > 1:
        raise DataError(f"passage id {id!r} comes twice in the corpus; ids must differ")


def _utf8(text: str, id: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"passage {id!r:.60}: half a surrogate pair, which Milvus cannot store; remove it"
        ) from error


def _pieces(text: str, id: str) -> Iterator[str]:
    """Cut a text so that no piece, nor any character, exceeds what a field holds."""
    packed = _utf8(text, id)
    start = 0
    while len(packed) - start > _LONGEST:
        end = start + _LONGEST
        while packed[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        yield packed[start:end].decode()
        start = end
    yield packed[start:].decode()
