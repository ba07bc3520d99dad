"""What it prints: text, one object, or a line for everything that happens."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
from typing import Any

from tests.support.scripted_agent.failing import ApiError
from tests.support.scripted_agent.transcript import Line


class Printer:
    """stdout, in the form that was asked for."""

    def __init__(self, form: str, session: str) -> None:
        self._form = form
        self._session = session
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.usage = {"input_tokens": 0, "output_tokens": 0}

    def event(self, kind: str, **fields: Any) -> None:
        """A line of stream-json."""
        if self._form == "stream-json":
            self._print({"type": kind, **fields, "session_id": self._session, "uuid": str(uuid.uuid4())})

    def said(self, line: Line, **fields: Any) -> None:
        """A line of the transcript, as stdout shows it."""
        if self._form == "stream-json":
            reported = {"parent_tool_use_id": None, "session_id": self._session, "uuid": line["uuid"]}
            self._print({"type": line["type"], "message": line["message"], **reported, **fields})

    def counted(self, usage: dict[str, Any]) -> None:
        """Tokens of one reply."""
        for name in self.usage:
            self.usage[name] += int(usage.get(name) or 0)

    def result(
        self, text: str, *, turns: int, subtype: str = "success", error: ApiError | None = None, **fields: Any
    ) -> None:
        """The last line."""
        reported: dict[str, Any] = {
            "type": "result",
            "subtype": subtype,
            "is_error": error is not None or subtype != "success",
            "num_turns": turns,
            "duration_ms": round((time.monotonic() - self._began) * 1000),
            "session_id": self._session,
            "total_cost_usd": round(self.usage["input_tokens"] * 5e-6 + self.usage["output_tokens"] * 25e-6, 6),
            "usage": self.usage,
            "permission_denials": [],
            "uuid": str(uuid.uuid4()),
            **fields,
        }
        if subtype == "success":
            reported["result"] = text
        if error is not None:
            reported |= {"terminal_reason": "api_error", "stop_reason": "stop_sequence", **error.resulting()}
        if self._form in ("text", "screen"):
            self._write(text)
        else:
            self._print(reported)

    def _print(self, line: dict[str, Any]) -> None:
        self._write(json.dumps(line, ensure_ascii=False))

    def _write(self, text: str) -> None:
        """Nobody listens any more: it goes on all the same, as the real one does."""
        with self._lock:
            try:
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
