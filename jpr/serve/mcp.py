"""The pipeline for assistants: a server of the Model Context Protocol on standard input/output."""

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

import jpr
from jpr.errors import JprError
from jpr.formats.questions import LONGEST_QUESTION
from jpr.pipeline import Pipeline
from jpr.retrieve.retrievers import hits_json
from jpr.serve.batching import BatchThread, Job, Result
from jpr.serve.engine import AskJob, DecodeOptions, SearchJob, ServiceEngine

_BATCH = 8
_MAX_K = 100
_INSTRUCTIONS = (
    "Answers questions from a collection of documents. `ask` finds every distinct answer to a "
    "question, with the passages that support them; `search` finds passages by relevance alone."
)
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]
Count = Annotated[int, Field(ge=1, le=_MAX_K)]


def serve_mcp(pipeline: Pipeline) -> None:
    """Serve until standard input ends; standard output carries the protocol alone."""
    engine = ServiceEngine(pipeline)
    model, first_stage = BatchThread(engine.work, _BATCH), BatchThread(engine.search, _BATCH)
    server = MCPServer("jpr", version=jpr.__version__, instructions=_INSTRUCTIONS)

    @server.tool()
    async def ask(question: Text, k: Count = 5) -> dict[str, Any]:
        """Find every distinct answer to a question, and k passages that together support them.

        Each answer has its probability and the ids of the passages that contain it; each passage
        lists the answers that it adds to those before it.
        """
        reply = await _result(model, AskJob(engine.pipeline, "", question, (DecodeOptions(k),)))
        assert isinstance(reply, dict)
        return {name: value for name, value in reply.items() if name != "tree"}

    @server.tool()
    async def search(query: Text, k: Count = 10) -> dict[str, Any]:
        """Find the k passages that are most relevant to a query."""
        found = await _result(first_stage, SearchJob(engine.pipeline, query, k))
        return {"hits": hits_json(found)}

    try:
        server.run("stdio")
    finally:
        model.close()
        first_stage.close()


async def _result(thread: BatchThread[Job, Result], job: Job) -> Result:
    try:
        return await thread.run(job)
    except JprError as error:
        raise ToolError(str(error)) from error
