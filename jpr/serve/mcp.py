"""The pipeline for assistants: a server of the Model Context Protocol on standard input/output."""

import asyncio
import sys
from io import TextIOWrapper
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
from jpr.serve.limits import ServiceLimits, lacking
from jpr.serve.mcp_lines import BoundedLines

_MAX_K = 100
_INSTRUCTIONS = (
    "Answers questions from a collection of documents. `ask` finds every distinct answer to a "
    "question, with the passages that support them; `search` finds passages by relevance alone."
)
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]
Count = Annotated[int, Field(ge=1, le=_MAX_K)]


def serve_mcp(pipeline: Pipeline, limits: ServiceLimits) -> None:
    """Serve until standard input ends; standard output carries the protocol alone."""
    engine = ServiceEngine(pipeline)
    model = BatchThread(engine.work, min(limits.batch, engine.batch))
    first_stage = BatchThread(engine.search, limits.batch)
    server = MCPServer("jpr", version=jpr.__version__, instructions=_INSTRUCTIONS)

    @server.tool()
    async def ask(question: Text, k: Count = 5) -> dict[str, Any]:
        """Find every distinct answer to a question, and k passages that together support them.

        Each answer has its probability and the ids of the passages that contain it; each passage
        lists the answers that it adds to those before it.
        """
        job = AskJob(engine.pipeline, "", question, (DecodeOptions(k),))
        reply = await _result(model, job, limits)
        assert isinstance(reply, dict)
        return {name: value for name, value in reply.items() if name != "tree"}

    @server.tool()
    async def search(query: Text, k: Count = 10) -> dict[str, Any]:
        """Find the k passages that are most relevant to a query."""
        found = await _result(first_stage, SearchJob(engine.pipeline, query, k), limits)
        return {"hits": hits_json(found)}

    sys.stdin = TextIOWrapper(BoundedLines(sys.stdin.buffer, limits))
    try:
        server.run("stdio")  # takes the buffer of sys.stdin
    finally:
        model.close()
        first_stage.close()


async def _result(thread: BatchThread[Job, Result], job: Job, limits: ServiceLimits) -> Result:
    """Return the result of a job, unless too many wait or its time is over."""
    if (queued := thread.queued) >= limits.waiting:
        raise ToolError(f"{queued} requests are waiting already; retry later")
    try:
        async with asyncio.timeout(limits.seconds):
            return await thread.run(job)
    except TimeoutError as error:
        raise ToolError(f"no response within {limits.seconds:g} seconds; request less") from error
    except (JprError, OSError, MemoryError) as error:
        raise ToolError(lacking(error) or str(error)) from error
