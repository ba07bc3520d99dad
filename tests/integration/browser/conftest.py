"""A real browser over a real server. Every page that a test opens is watched: no script error, no refused resource.

The browser is the system's chromium, in a profile of its own; the servers listen on loopback. A context is logged in by
a launch link, as a person is. A test that fails tells what its pages showed, said and asked for, and what was running.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support import page_evidence
from tests.support.sample_sessions import Scenes
from tests.support.server_harness import ServerHarness, listening

ROOT = Path(__file__).resolve().parents[3]
SCREENSHOTS = ROOT / "build" / "screenshots"
ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 40_000
"""for what has to come, also on a machine that has other things to do; a test that passes does not wait for it"""
expect.set_options(timeout=PATIENCE_MS)


def stranger(browser: Browser, **options: Any) -> BrowserContext:
    """A browser of its own, logged in nowhere, whose words and requests are kept."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page_evidence.keep(context)
    return context


def ready(page: Page) -> Page:
    """After a link was followed: its text may be there before the scripts are, which a key or a dialog needs."""
    page.wait_for_load_state()
    return page


class Site:
    """A server under test, and browsers that are logged in to it."""

    def __init__(self, harness: ServerHarness, port: int, browser: Browser) -> None:
        self.harness, self.port, self._browser = harness, port, browser
        self.troubles: list[str] = []
        self._contexts: list[BrowserContext] = []

    @property
    def rl(self) -> Any:
        return self.harness.rl

    def address(self, path: str) -> str:
        """Under the server's own name, where a browser is logged in."""
        return f"http://{self.harness.guard.own_name}:{self.port}{path}"

    def link(self, path: str = "/") -> str:
        """A launch link, as `relight serve` prints it."""
        return f"http://127.0.0.1:{self.port}/login?code={self.harness.guard.tokens.new_code(60)}&next={path}"

    def context(self, **options: Any) -> BrowserContext:
        """A browser of its own, logged in."""
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        context = stranger(self._browser, **options)
        self._contexts.append(context)
        page = context.new_page()
        page.goto(self.link("/assets/icon.svg"))
        page.close()
        return context

    def page(self, path: str = "/", *, context: BrowserContext | None = None, **options: Any) -> Page:
        """A page, watched."""
        page = (context or self.context(**options)).new_page()
        page.on("pageerror", lambda error: self.troubles.append(f"{page.url}: {error}"))
        page.on("console", lambda said: self._console(page, said))
        page.goto(self.address(path))
        return page

    def _console(self, page: Page, said: Any) -> None:
        if (
            said.type == "error"
            and "status of 4" not in said.text
            and "status of 503" not in said.text
            and "ERR_" not in said.text
        ):
            self.troubles.append(f"{page.url}: {said.text}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self._contexts.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test here waits for a browser, a server and a store, many times; a busy machine takes minutes for it."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure that came once has to be understood from its report."""
    report = yield
    if report.failed and "browser" in getattr(item, "fixturenames", ()):
        report.sections += page_evidence.sections(item.name, SCREENSHOTS / "failed")
    return report


@pytest.fixture(scope="module")
def browser(program: Callable[[str], str]) -> Iterator[Browser]:
    """One for a module: while it is there its event loop runs, beside which no other test could run one."""
    path = program("chromium")
    sandbox = [] if os.geteuid() else ["--no-sandbox"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *sandbox])
        yield opened
        opened.close()


def served(harness: ServerHarness, browser: Browser) -> Iterator[Site]:
    """A server over what a harness has open, and its troubles looked at when it ends."""
    with listening(harness) as port, page_evidence.server(harness):
        site = Site(harness, port, browser)
        try:
            yield site
        finally:
            site.close()
        assert site.troubles == []


@pytest.fixture
def site(tmp_path: Path, browser: Browser) -> Iterator[Site]:
    """An empty store of its own, for who changes something."""
    harness = ServerHarness(tmp_path / "p.db")
    try:
        yield from served(harness, browser)
    finally:
        harness.close()


@pytest.fixture
def over(browser: Browser) -> Iterator[Callable[[Path], Site]]:
    """`over(store)`: a server over a store that is there already."""
    opened: list[tuple[ServerHarness, Iterator[Site]]] = []

    def serve(store: Path) -> Site:
        harness = ServerHarness(store)
        running = served(harness, browser)
        opened.append((harness, running))
        return next(running)

    yield serve
    for harness, running in reversed(opened):
        assert next(running, None) is None
        harness.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    """Sessions of every kind, for who only looks."""
    base = tmp_path_factory.mktemp("scene")
    scenes = Scenes(base / "p.db", base / "src")
    scenes.fill()
    scenes.close()
    harness = ServerHarness(base / "p.db")
    try:
        yield from served(harness, browser)
    finally:
        harness.close()


def every_page(site: Site) -> dict[str, str]:
    """Name to address of each page and tab, and of the pages for errors."""
    session = site.rl.sessions.get("fix-login").id
    tabs = {tab: f"/sessions/{session}?tab={tab}" for tab in ("conversation", "calls", "files", "forks", "raw")}
    return {
        "sessions": "/",
        "no-match": "/?status=archived&q=zzz",
        "session": f"/sessions/{session}",
        "steps": f"/sessions/{session}?density=steps&plots=1",
        "find": f"/sessions/{session}?q=refresh",
        **tabs,
        "failed": f"/sessions/{site.rl.sessions.get('nightly-docs').id}",
        "fork": f"/sessions/{site.rl.sessions.get('fix-login-argon2').id}",
        "archived": f"/sessions/{site.rl.sessions.get('old-spike').id}",
        "checkpoint": f"/checkpoints/{session}@tests-green",
        "compared": f"/checkpoints/{session}@tests-green?compare=other&other=@10",
        "operations": "/operations?resumes=1",
        "costs": "/costs",
        "compare": f"/compare?a={session}&b={site.rl.sessions.get('fix-login-argon2').id}",
        "dialog": f"/checkpoints/{session}@tests-green/do/rewind",
        "several": "/do/archive",
        "missing": "/sessions/nothing-here",
        "found": "/search?q=login",
        "not-found": "/search?q=zzz&session=fix-login&since=8h",
        "docs": "/docs",
    }
