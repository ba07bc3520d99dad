"""The request log: one line of JSON a request, written before it is answered.

Keys and tokens are not written. A line torn by a kill is left out when the log is read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from threading import Condition
from typing import Any, Final

from tests.support.fake_model.conversation import Item, read

_SECRET: Final = frozenset({"authorization", "x-api-key", "cookie", "proxy-authorization", "x-goog-api-key"})


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it came."""

    number: int
    """from 1, side requests included"""
    api: str
    """messages, responses, chat, gemini, count_tokens, other"""
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    """parsed JSON, or the text where it does not parse"""
    side: bool = False
    """without tools: a title, a summary, a probe; it gets a neutral answer and plays no turn"""
    slot: int | None = None
    """the slot of the script that answers it"""
    problem: str = ""
    """why strict mode refuses it"""
    at: float = field(default_factory=time.time)
    """when it came, in seconds since 1970"""

    @property
    def items(self) -> list[Item]:
        """The conversation in its body, as flat items."""
        return read(self.api, self.body)


class Log:
    """Requests in memory and, where a path is given, in a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._requests: list[Request] = []
        self._changed = Condition()

    def add(self, request: Request) -> None:
        """Write a request down, then tell those who wait for one."""
        with self._changed:
            self._requests.append(request)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(request)) + "\n")
            self._changed.notify_all()

    def requests(self, *, sides: bool = False) -> list[Request]:
        """The model requests so far, in order."""
        with self._changed:
            return [one for one in self._requests if sides or (one.slot is not None or one.problem)]

    def wait(self, count: int, seconds: float) -> list[Request]:
        """Wait until there are so many model requests; TimeoutError if they do not come."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests()) >= count, seconds):
                raise TimeoutError(f"{len(self.requests())} of {count} requests after {seconds} seconds")
            return self.requests()


def shown(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without their secrets, names in lower case."""
    return {name.lower(): "(not logged)" if name.lower() in _SECRET else value for name, value in headers.items()}


def read_log(path: Path | str) -> list[Request]:
    """Read a log file back."""
    known = {one.name for one in fields(Request)}
    found = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            given = json.loads(line)
        except ValueError:
            continue
        found.append(Request(**{name: value for name, value in given.items() if name in known}))
    return found
