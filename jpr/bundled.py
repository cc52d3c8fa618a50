"""The bundled models over an index, a folder of documents, or the bundled encyclopedia."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jpr.encode.encoder import TextEncoder
from jpr.encode.encoder_folder import BUNDLED_ENCODER, load_encoder
from jpr.encode.vectors import StoredVectors, open_vectors
from jpr.errors import ConfigError, FormatError, JprError
from jpr.formats.corpus.jsonl import atlas
from jpr.io.locks import DOCUMENTS, cache_folder
from jpr.pipeline import Pipeline
from jpr.read.spans import SpanReader
from jpr.rerank.joint import JointReranker
from jpr.retrieve.document_index import (
    ProgressBar,
    exclusive_folder,
    index_documents,
    no_progress_bar,
)
from jpr.retrieve.engines import engine_of
from jpr.retrieve.index import build_index
from jpr.retrieve.retrievers import KeyedRetriever, open_retriever
from jpr.types import Passage, Reply

ENCYCLOPEDIA = Path(__file__).parent / "assets" / "encyclopedia"
"""Passages and questions of this project, and the vectors of the passages."""
CANDIDATES = 100


def ask(
    question: str,
    *,
    docs: str | Path | None = None,
    index: str | Path | None = None,
    k: int = 5,
) -> Reply:
    """Answer a question from a folder of documents, an index, or else the bundled encyclopedia.

    Documents are indexed at the first question; later questions index what has changed.
    """
    return open_pipeline(docs, index, k, device="cpu").ask(question)


async def ask_async(
    question: str,
    *,
    docs: str | Path | None = None,
    index: str | Path | None = None,
    k: int = 5,
) -> Reply:
    """Do the same in a thread."""
    return await asyncio.to_thread(ask, question, docs=docs, index=index, k=k)


def open_pipeline(
    docs: str | Path | None = None,
    index: str | Path | None = None,
    k: int = 5,
    *,
    candidates: int = CANDIDATES,
    device: str = "auto",
    watched: ProgressBar = no_progress_bar,
) -> Pipeline:
    """Open the bundled models over documents, an index, or else the bundled encyclopedia.

    Models are loaded once and shared; `watched` shows the progress of indexing.
    """
    if docs is not None and index is not None:
        raise ConfigError("give documents or an index, not both")
    if index is not None:
        retriever: KeyedRetriever = open_retriever(index)
    else:
        encoder = shared_encoder(device)
        home = cache_folder()
        if docs is not None:
            folder = index_documents(
                Path(docs), home / DOCUMENTS, encoder, BUNDLED_ENCODER / "tokenizer.json", watched
            )
        else:
            folder = encyclopedia(home / "encyclopedia", encoder)
        retriever = open_retriever(folder, encoder=encoder)
    joint, reader = _model(device)
    return Pipeline(retriever, joint, reader, k, max(k, candidates))


@cache
def shared_encoder(device: str) -> TextEncoder:
    """Return the bundled encoder, loaded once."""
    return load_encoder(device=device)


@cache
def _model(device: str) -> tuple[JointReranker, SpanReader]:
    joint = JointReranker.load(device=device)
    return joint, SpanReader(joint)


def encyclopedia(home: Path, encoder: TextEncoder) -> Path:
    """Return the index of the encyclopedia, built from the bundled vectors if it is missing."""
    source = ENCYCLOPEDIA / "passages.jsonl"
    try:
        text = source.read_bytes()
    except OSError as error:
        raise FormatError(source, 0, "is missing; reinstall jpr") from error
    folder = home / hashlib.sha256(text + encoder.key.encode()).hexdigest()[:24]
    index = folder / "index"
    if engine_of(index):
        return index
    with exclusive_folder(folder):
        if not engine_of(index):  # another process built it meanwhile
            passages = [passage for _, passage in atlas.read(source)]
            stored = _stored_vectors(passages, encoder)
            vectors = None if stored is None else lambda *_: stored
            build_index(passages, index, source="encyclopedia", vectors=vectors, encoder=encoder)
    return index


def _stored_vectors(passages: Sequence[Passage], encoder: TextEncoder) -> StoredVectors | None:
    """Open the bundled vectors if they belong to these passages and this encoder."""
    try:
        stored = open_vectors(ENCYCLOPEDIA / "vectors")
        fit = stored.key == encoder.key and len(list(stored.checked(passages))) == len(stored)
    except JprError:
        return None
    return stored if fit else None
