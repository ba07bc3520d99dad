"""The server's log: one line a request or event, as text or as JSON with session and seq for machines.

Every line is redacted when it is put together, whoever wrote it.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

from relight.system.machine import redactor

LOG: Final = logging.getLogger("relight.server")
_OWN: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"})


class JsonLines(logging.Formatter):
    """One JSON object a line: at, level, event, and whatever was said beside it (session, seq, ...)."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_beside(record),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(redactor().value(_as_texts(said)), default=str, ensure_ascii=True)


class PlainLines(logging.Formatter):
    """The same for people; control characters stay escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        beside = " ".join(f"{key}={_shown(value)}" for key, value in _beside(record).items())
        line = f"{at} {record.levelname.lower():<7} {_shown(record.getMessage())} {beside}".rstrip()
        return redactor().text(f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line)


def _as_texts(said: dict[str, object]) -> dict[str, object]:
    """What is neither a number nor nothing is text: an error or a path may hold a secret too."""
    return {key: value if isinstance(value, int | float | None) else str(value) for key, value in said.items()}


def _beside(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _OWN}


def _shown(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)


def _not_a_dropped_stream(record: logging.LogRecord) -> bool:
    """A stream that was dropped is told by us; its server only sees an answer without an end."""
    return record.name != "uvicorn.error" or not record.getMessage().startswith("ASGI callable returned without")


def set_up(form: Literal["text", "json"], *, level: int = logging.INFO) -> None:
    """To stderr: stdout belongs to whoever started us."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    handler.addFilter(_not_a_dropped_stream)
    for name in ("relight.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level if name == "relight.server" else max(level, logging.WARNING))
        logger.propagate = False
