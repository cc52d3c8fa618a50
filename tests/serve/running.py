"""Services of tiny random models on loopback ports; as a program, one until it is stopped."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

from jpr.pipeline import Pipeline
from jpr.read.spans import SpanReader
from jpr.rerank.joint import JointReranker
from jpr.retrieve.custom import FunctionRetriever
from jpr.retrieve.index import build_index
from jpr.retrieve.retrievers import open_retriever
from jpr.serve.access import AccessPolicy
from jpr.serve.app import Address, make_server, serve
from jpr.serve.limits import ServiceLimits, ServiceSettings
from jpr.serve.mcp import serve_mcp
from jpr.serve.service import Service
from jpr.serve.tokens import Tokens
from jpr.types import Hit, Passage
from tests.rerank.words import NAMES, tokenizer

QUESTION = "which colour ?"
STUCK_SECONDS = 2.0  # limit of a request where the first stage never returns
PASSAGES = [Passage(name, name, f"{name} which colour {name}") for name in NAMES]
HITS = [Hit(passage, 1.0 / (place + 1)) for place, passage in enumerate(PASSAGES)]


def make_pipeline(folder: Path, *, onnx: bool = True) -> Pipeline:
    """A tiny model over ten passages; without `onnx` in torch, which keeps no candidates read."""
    from jpr.rerank.save import export_joint
    from tests.rerank.tiny import write_pointer  # torch: not for a program that only opens it

    model = write_pointer(folder / "torch", answers=True)
    if onnx:
        (folder / "onnx").mkdir()
        export_joint(model, folder / "onnx", [])
    build_index(PASSAGES, folder / "index", source="test")
    return open_pipeline(folder)


def open_pipeline(folder: Path) -> Pipeline:
    """Open what was made in a folder."""
    model = folder / ("onnx" if (folder / "onnx").exists() else "torch")
    joint = JointReranker.load(model, "tree", 2.0, device="cpu", threads=1)
    return Pipeline(open_retriever(folder / "index"), joint, SpanReader(joint), 3, 10)


def make_service(pipeline: Pipeline, limits: ServiceLimits | None = None) -> Service:
    return Service(pipeline, limits or ServiceLimits(), tokenizer())


@contextmanager
def running(
    pipeline: Pipeline,
    limits: ServiceLimits | None = None,
    tokens: Tokens | None = None,
    settings: ServiceSettings | None = None,
) -> Iterator[str]:
    """Run a service in a thread of its address's name, and yield that."""
    address = Address(port=0)
    with address.bind() as bound:
        server = make_server(
            make_service(pipeline, limits), address.policy(tokens, settings or ServiceSettings())
        )
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), name=url)
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()


def _slowly(_: str, k: int) -> list[Hit]:
    time.sleep(1)
    return HITS[:k]


def _never(_: str, k: int) -> list[Hit]:
    time.sleep(3600)
    return HITS[:k]


if __name__ == "__main__":
    made = open_pipeline(Path(sys.argv[1]))
    if "--mcp" in sys.argv:
        serve_mcp(made, ServiceLimits(body=1 << 20))
    else:
        is_stuck = "--stuck" in sys.argv
        slow = replace(made, retriever=FunctionRetriever(_never if is_stuck else _slowly))
        limits = ServiceLimits(seconds=STUCK_SECONDS) if is_stuck else None
        serve(make_service(slow, limits), Address(port=0), AccessPolicy())
