"""What a browser test tells when it fails: the text and a picture of each page, what the browsers said and asked for,
what the servers logged, what their stores hold, and what was running."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Error, Page

from relight.server.http.logs import PlainLines
from tests.support.server_harness import ServerHarness

_BOUND_MS = 5000
_TEXT = 6000
_LINES = 80

_contexts: dict[BrowserContext, deque[str]] = {}
_servers: list[ServerHarness] = []
_log: deque[str] = deque(maxlen=_LINES)


class _Kept(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _log.append(self.format(record))


def keep(context: BrowserContext) -> None:
    """Keep the last lines of what a context says and asks for, until it is closed."""
    lines = _contexts[context] = deque[str](maxlen=_LINES)

    def line(text: str) -> None:
        lines.append(f"{time.strftime('%H:%M:%S')} {text}")

    context.on("console", lambda said: line(f"console {said.type}: {said.text}"))
    context.on("weberror", lambda error: line(f"error: {error.error}"))
    context.on("request", lambda asked: line(f"-> {asked.method} {asked.url}"))
    context.on("response", lambda answer: line(f"<- {answer.status} {answer.request.method} {answer.url}"))
    context.on("requestfailed", lambda asked: line(f"<- failed {asked.method} {asked.url}: {asked.failure}"))
    context.on("close", _forget)


def _forget(context: BrowserContext) -> None:
    _contexts.pop(context, None)


@contextmanager
def server(harness: ServerHarness) -> Iterator[None]:
    """Keep the last lines of the servers' log, and know which stores are served, while it listens."""
    handler, logger = _Kept(), logging.getLogger("relight.server")
    handler.setFormatter(PlainLines())
    logger.addHandler(handler)
    _servers.append(harness)
    try:
        yield
    finally:
        _servers.remove(harness)
        logger.removeHandler(handler)
        if not _servers:
            _log.clear()


def sections(test: str, pictures: Path) -> list[tuple[str, str]]:
    """Titles and texts for the report of a test that failed; pictures are kept in the directory."""
    found = [("what a browser said and asked for", "\n".join(lines)) for lines in list(_contexts.values())]
    pages = [page for context in _contexts for page in context.pages]
    name = re.sub(r"[^-.\w]", "_", test)
    found += [(f"page {page.url}", _page(page, pictures / f"{name}-{n}.png")) for n, page in enumerate(pages)]
    found += [(f"sessions in {harness.store.name}", _sessions(harness)) for harness in _servers]
    found += [("log of the servers", "\n".join(_log)), ("running", _running())]
    return found


def _page(page: Page, picture: Path) -> str:
    """Each part by itself: a page that is going away may still tell another one."""

    def focus() -> str:
        return str(page.locator(":focus").evaluate_all("all => all.map(one => one.outerHTML.slice(0, 200))"))

    def shown() -> str:
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=picture, timeout=_BOUND_MS)
        return str(picture)

    def text() -> str:
        return page.locator("body").inner_text(timeout=_BOUND_MS)[:_TEXT]

    said = []
    for title, part in (("title", page.title), ("focus", focus), ("picture", shown), ("text", text)):
        try:
            said.append(f"{title}: {part()}")
        except Error as error:
            said.append(f"{title}: {error}")
    return "\n".join(said)


def _sessions(harness: ServerHarness) -> str:
    def line(one: Any) -> str:
        return f"{one.title}: {one.status} @{one.seq} head @{one.head} attempt {one.attempt} {one.reason or ''}"

    try:
        return "\n".join(line(one) for one in harness.rl.sessions.list(limit=20))
    except Exception as error:  # a store that a test damaged: that the report is made is worth more
        return f"{type(error).__name__}: {error}"


def _running() -> str:
    """This process and what descends from it, and how much the machine has to do."""
    listed = subprocess.run(
        ["ps", "-ww", "-e", "-o", "pid=,ppid=,stat=,etime=,args="], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    parents = {int(line.split()[0]): int(line.split()[1]) for line in listed}

    def is_ours(pid: int) -> bool:
        while pid and pid != os.getpid():
            pid = parents.get(pid, 0)
        return bool(pid)

    ours = [line[:200] for line in listed if is_ours(int(line.split()[0])) and "--type=" not in line]
    return "\n".join([f"load {os.getloadavg()}", *ours])
