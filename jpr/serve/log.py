"""Logs as JSON lines: what happened and how long it took, never what was asked or read.

An error of ours is told by its kind and where in the code it was, not by its message, which may
quote a text.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

_LOG = logging.getLogger("jpr.serve")


def tell(event: str, **fields: object) -> None:
    """Log an event with its fields."""
    _LOG.info(event, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Formats records of ours, and of the HTTP server."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, object] = {"time": time, "level": record.levelname.lower()}
        fields = record.__dict__.get("fields")
        told["event"] = record.msg if fields is not None else record.getMessage().strip()
        told |= fields or {}
        if record.exc_info and record.exc_info[1] is not None:
            told |= error_fields(record.exc_info[1])
        return json.dumps(told, ensure_ascii=False)


def error_fields(error: BaseException) -> dict[str, object]:
    """Return what may be told of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-8:]],
    }


def log_to(stream: TextIO = sys.stderr) -> None:
    """Send our events, and the warnings of the HTTP server, to a stream."""
    to_stream = logging.StreamHandler(stream)
    to_stream.setFormatter(JsonLines())
    for name, level in (("jpr.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [to_stream], False
        logger.setLevel(level)
