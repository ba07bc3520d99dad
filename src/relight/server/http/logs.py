"""The server's log on stderr: one line per event, as text or as JSON with session and seq.

Secrets are redacted in the formatters, so that lines of libraries are covered too.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

from relight.system.environment_secrets import redactor

LOG: Final = logging.getLogger("relight.server")
_STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"})


class JsonLines(logging.Formatter):
    """One JSON object per line: at, level, logger, event and the extra fields (session, seq, ...)."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(redactor().value(_as_texts(fields)), default=str, ensure_ascii=True)


class PlainLines(logging.Formatter):
    """`time level event key=value ...`; control characters are escaped, so that no value can forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        # By field, as in JSON: in a whole line the id of a session would be taken for that of a login (session=...).
        fields = redactor().value(_as_texts(_extra(record)))
        extra = " ".join(f"{key}={_printable(value)}" for key, value in fields.items())
        event = redactor().text(record.getMessage())
        line = f"{at} {record.levelname.lower():<7} {_printable(event)} {extra}".rstrip()
        return f"{line}\n{redactor().text(self.formatException(record.exc_info))}" if record.exc_info else line


def _as_texts(fields: dict[str, object]) -> dict[str, object]:
    # The redactor reads text only: an exception or a path that json.dumps would stringify later may hold a secret.
    return {key: value if isinstance(value, int | float | None) else str(value) for key, value in fields.items()}


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _printable(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)


def _not_a_dropped_stream(record: logging.LogRecord) -> bool:
    """Filter: drops uvicorn's complaint about a stream that the hub ended on purpose, and logged itself."""
    return record.name != "uvicorn.error" or not record.getMessage().startswith("ASGI callable returned without")


def set_up(form: Literal["text", "json"]) -> None:
    """Send the log to stderr; stdout is left for the command's own output."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    handler.addFilter(_not_a_dropped_stream)
    for name in ("relight.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO if name == "relight.server" else logging.WARNING)
        logger.propagate = False
