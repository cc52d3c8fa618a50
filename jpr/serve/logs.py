"""Logs as JSON lines: what happened and how long it took, never questions, texts or tokens.

An error is logged by its type and its place in the code; its message may quote a text.
"""

import json
import logging
import traceback
from datetime import UTC, datetime

_LOG = logging.getLogger("jpr.serve")


def log_event(event: str, **fields: object) -> None:
    """Log an event with its fields."""
    _LOG.info(event, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Formats records of this package and of the HTTP server."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time,
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
            **record.__dict__.get("fields", {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            frames = traceback.extract_tb(error.__traceback__)[-8:]
            line["error"] = type(error).__name__
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr() -> None:
    """Send our events, and the warnings of the HTTP server, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("jpr.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
