"""What a page holds does not grow with what it was told: memory and elements after very many live updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.integration.browser.conftest import Site
from tests.integration.browser.test_live import working
from tests.support.figures import Figure

HEAP_BYTES = 32_000_000
ELEMENTS = 30_000
"""of at most 1,200 rows"""
EVERY = 100


def held(page: Page) -> tuple[int, int]:
    """Bytes of the heap that are in use, after a collection, and elements."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("HeapProfiler.enable")
    devtools.send("HeapProfiler.collectGarbage")
    used = int(devtools.send("Runtime.getHeapUsage")["usedSize"])
    devtools.detach()
    return used, int(page.evaluate("document.querySelectorAll('*').length"))


def test_live_updates_leave_heap_and_elements_bounded(site: Site, figure: Figure, sample: Callable[..., int]) -> None:
    updates = sample(500, proof=10_000)
    for n in range(20):
        working(site, f"quiet-{n}", 1).complete()
    s: Any = working(site, "busy", 3)
    context = site.context()
    pages = {"session": site.page(f"/sessions/{s.id}", context=context), "list": site.page("/", context=context)}
    for page in pages.values():
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
    before = {name: held(page)[0] for name, page in pages.items()}
    for n in range(updates):
        s.append({"role": "assistant", "content": f"update {n}"})
        if n % EVERY == EVERY - 1:
            last = str(site.rl.sessions.get(s.id).seq)
            expect(pages["session"].locator("#rows > .row").last).to_contain_text(f"update {n}")
            row = pages["list"].locator("tr.s[data-ref=busy]")
            expect(row).to_have_attribute("data-seq", last)
    for name, page in pages.items():
        heap, elements = held(page)
        assert heap <= HEAP_BYTES and elements <= ELEMENTS, (name, heap, elements)
        figure(
            "G27",
            f"{updates:,} live updates of the {name}: {before[name] / 1e6:.1f} to {heap / 1e6:.1f} MB of heap,"
            f" {elements:,} elements",
        )
    s.complete()
    s.close()
