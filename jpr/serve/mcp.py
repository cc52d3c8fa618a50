"""The pipeline for assistants: an MCP server on standard input and output."""

import asyncio
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

import jpr
from jpr.errors import JprError
from jpr.formats.questions.asked import LONGEST
from jpr.pipeline import Pipeline
from jpr.retrieve.retrievers import hits_json
from jpr.serve.batching import WorkThread
from jpr.serve.engine import Engine
from jpr.serve.jobs import Ask, How, Rerank, Reranked, Search, Told
from jpr.serve.metrics import Metrics
from jpr.types import Ranking

_BATCH = 8
_MOST = 100
_INSTRUCTIONS = (
    "Answers questions from a collection of documents. `ask` finds every distinct answer to a "
    "question, with the passages that say them; `search` finds passages, one by one."
)
Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Count = Annotated[int, Field(ge=1, le=_MOST)]


class Tools:
    """What an assistant can call."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Start the threads that work."""
        engine = Engine(pipeline, Metrics())
        self._pipeline = engine.pipeline
        self._work: WorkThread[Ask | Rerank, Told | Reranked] = WorkThread(engine.work, _BATCH)
        self._search: WorkThread[Search, Ranking] = WorkThread(engine.search, _BATCH)

    async def ask(self, question: Text, k: Count = 5) -> dict[str, Any]:
        """Find every distinct answer to a question, and k passages that together say them.

        Each answer has its probability and the ids of the passages that contain it; each passage
        says which answers it adds to those before it.
        """
        job = Ask(self._pipeline, "", question, How(k))
        try:
            told = await asyncio.wrap_future(self._work.submit(job))
        except JprError as error:
            raise ToolError(str(error)) from error
        assert isinstance(told, dict)
        return {name: value for name, value in told.items() if name != "tree"}

    async def search(self, query: Text, k: Count = 10) -> dict[str, Any]:
        """Find the k passages that fit a query best, one by one."""
        try:
            found = await asyncio.wrap_future(self._search.submit(Search(self._pipeline, query, k)))
        except JprError as error:
            raise ToolError(str(error)) from error
        return {"hits": hits_json(found)}

    def close(self) -> None:
        """Finish what waits."""
        self._work.close()
        self._search.close()


def serve_mcp(pipeline: Pipeline) -> None:
    """Serve until standard input ends; standard output is the protocol's alone."""
    tools = Tools(pipeline)
    server = MCPServer("jpr", version=jpr.__version__, instructions=_INSTRUCTIONS)
    server.add_tool(tools.ask)
    server.add_tool(tools.search)
    try:
        server.run("stdio")
    finally:
        tools.close()
