"""The pipeline for assistants: a server of the Model Context Protocol on standard input/output."""

import asyncio
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

import jpr
from jpr.errors import JprError
from jpr.formats.questions import LONGEST_QUESTION
from jpr.pipeline import Pipeline
from jpr.retrieve.retrievers import hits_json
from jpr.serve.batching import BatchThread
from jpr.serve.engine import AskJob, DecodeOptions, SearchJob, ServiceEngine

_BATCH = 8
_MAX_K = 100
_INSTRUCTIONS = (
    "Answers questions from a collection of documents. `ask` finds every distinct answer to a "
    "question, with the passages that support them; `search` finds passages by relevance alone."
)
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]
Count = Annotated[int, Field(ge=1, le=_MAX_K)]
Result = TypeVar("Result")


class Tools:
    """What an assistant can call."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Start the threads."""
        engine = ServiceEngine(pipeline)
        self._pipeline = engine.pipeline
        self._model = BatchThread(engine.work, _BATCH)
        self._first_stage = BatchThread(engine.search, _BATCH)

    async def ask(self, question: Text, k: Count = 5) -> dict[str, Any]:
        """Find every distinct answer to a question, and k passages that together support them.

        Each answer has its probability and the ids of the passages that contain it; each passage
        lists the answers that it adds to those before it.
        """
        job = AskJob(self._pipeline, "", question, DecodeOptions(k))
        reply = await _result(self._model.submit(job))
        assert isinstance(reply, dict)
        return {name: value for name, value in reply.items() if name != "tree"}

    async def search(self, query: Text, k: Count = 10) -> dict[str, Any]:
        """Find the k passages that are most relevant to a query."""
        job = SearchJob(self._pipeline, query, k)
        return {"hits": hits_json(await _result(self._first_stage.submit(job)))}

    def close(self) -> None:
        """Finish the queued jobs."""
        self._model.close()
        self._first_stage.close()


async def _result(future: "Future[Result]") -> Result:
    try:
        return await asyncio.wrap_future(future)
    except JprError as error:
        raise ToolError(str(error)) from error


def serve_mcp(pipeline: Pipeline) -> None:
    """Serve until standard input ends; standard output carries the protocol alone."""
    tools = Tools(pipeline)
    server = MCPServer("jpr", version=jpr.__version__, instructions=_INSTRUCTIONS)
    server.add_tool(tools.ask)
    server.add_tool(tools.search)
    try:
        server.run("stdio")
    finally:
        tools.close()
