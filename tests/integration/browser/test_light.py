"""Light: a page fetches what changed and nothing else, and what it holds stays bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.integration.browser.conftest import Site
from tests.integration.browser.test_live import working
from tests.support.figures import Figure


def watched(page: Page) -> tuple[Callable[[], int], list[str]]:
    """How many bytes the page received since, compressed and with headers; and which addresses it asked for."""
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    sizes: list[int] = []
    asked: list[str] = []
    network.on("Network.dataReceived", lambda event: sizes.append(event["encodedDataLength"]))
    network.on("Network.responseReceived", lambda event: sizes.append(event["response"]["encodedDataLength"]))
    network.on("Network.requestWillBeSent", lambda event: asked.append(event["request"]["url"]))
    return lambda: sum(sizes), asked


def test_the_list_beside_a_busy_session_fetches_changed_rows_only(
    site: Site, figure: Figure, sample: Callable[..., int]
) -> None:
    for n in range(40):
        working(site, f"quiet-{n}", 1).complete()
    busy: Any = working(site, "busy", 1)
    page = site.page("/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    received, asked = watched(page)
    steps, began = 0, time.monotonic()
    while time.monotonic() < began + sample(3, proof=10):
        busy.append({"role": "assistant", "content": f"step {steps}"})
        steps += 1
        page.wait_for_timeout(50)  # so that there are many paints
    expect(page.locator("tr.s[data-ref=busy]")).to_have_attribute("data-seq", str(site.rl.sessions.get(busy.id).seq))
    size, seconds = received(), time.monotonic() - began
    lists = [one for one in asked if "part=list" in one]
    assert not lists and any(f"ids={busy.id}" in one for one in asked), asked
    assert size <= 4000 * seconds, f"{size} bytes in {seconds:.1f} s: {asked}"
    figure(
        "G27", f"the list of 41 sessions beside one of {steps} steps received {size / 1000:.1f} kB in {seconds:.1f} s"
    )
    busy.complete()
    busy.close()


def test_opening_the_list_reads_it_once(site: Site) -> None:
    working(site, "one", 1).complete()
    expect(site.page("/").locator("#live")).to_have_attribute("data-state", "live")
    asked: list[str] = []
    page = site.context().new_page()
    page.on("request", lambda request: asked.append(request.url.removeprefix(site.address(""))))
    page.goto(site.address("/"))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    late = site.rl.session("late")
    expect(page.locator("#newer")).to_have_text("1 new session - show")
    late.complete()
    late.close()
    assert asked.count("/") == 1 and not any("part=list" in one for one in asked), asked
    assert len(asked) == len(set(asked)) or all("part=rows" in one for one in asked if asked.count(one) > 1), asked


def test_opening_the_operations_page_reads_it_once_and_then_when_something_happened(site: Site) -> None:
    s: Any = working(site, "one", 1)
    asked: list[str] = []
    page = site.context().new_page()
    page.on("request", lambda request: asked.append(request.url.removeprefix(site.address(""))))
    page.goto(site.address("/operations"))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    s.fail("boom")
    expect(page.get_by_role("heading", name="Failed (1)")).to_be_visible()
    assert asked.count("/operations") == 2, asked
    s.close()


def test_a_page_that_follows_a_long_run_stays_bounded(site: Site, figure: Figure, sample: Callable[..., int]) -> None:
    steps = sample(1400, proof=10_000)
    s: Any = working(site, "long", 3)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    for n in range(steps):
        s.append({"role": "assistant", "content": f"update {n}"})
        if n % 100 == 99:
            expect(page.locator("#rows > .row").last).to_contain_text(f"update {n}", timeout=60_000)
    count, nodes = page.locator("#rows > .row").count(), int(page.evaluate("document.querySelectorAll('*').length"))
    assert count <= 1200, f"{count} rows, {page.evaluate('[scrollY, innerHeight, document.body.scrollHeight]')}"
    seqs = page.locator("#rows > .row:not(.rule)").evaluate_all("all => all.map(row => Number(row.dataset.seq))")
    assert seqs == list(range(seqs[0], seqs[-1] + 1)), "none is missing among those that are left"
    page.get_by_role("link", name="earlier").click()
    expect(page.locator(f"#rows [data-seq='{seqs[0] - 1}']")).to_have_count(1)
    figure("G27", f"{steps:,} live updates: {count} rows, {nodes:,} elements")
    s.complete()
    s.close()
