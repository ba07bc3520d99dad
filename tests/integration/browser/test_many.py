"""Ten thousand sessions, thousands of steps: pages stay quick and small, and what they count is true."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

import relight
from tests.integration.browser.conftest import Site, served
from tests.support.figures import Figure
from tests.support.load import allowed
from tests.support.many_sessions import crowd, long_session
from tests.support.server_harness import ServerHarness

SESSIONS = 10_000
STEPS = 4_128
EVERY = 40
LIST_MS = 200
SESSION_MS = 400


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    store = tmp_path_factory.mktemp("many") / "p.db"
    crowd(store, SESSIONS, begins_us=round((time.time() - 2 * 86_400) * 1e6))
    with relight.open(store) as rl:
        long_session(rl, "long", STEPS, every=EVERY)
    harness = ServerHarness(store)
    try:
        yield from served(harness, browser)
    finally:
        harness.close()


def painted_ms(page: Page, address: str, promised_ms: float) -> float:
    """From the first byte asked for to the first paint, the best of a few, of more if this machine is busy: what else
    it does only ever adds."""
    script = """new Promise(go => new PerformanceObserver((list, mine) => { mine.disconnect(); go(list
        .getEntriesByName('first-contentful-paint')[0].startTime); }).observe({ type: 'paint', buffered: true }))"""
    took: list[float] = []
    while len(took) < 4 or (min(took) > allowed(promised_ms) and len(took) < 20):
        page.goto(address)
        took.append(float(page.evaluate(script)))
    assert min(took) <= allowed(promised_ms), took
    return min(took)


def test_the_first_page_of_ten_thousand_sessions_is_quick_and_small(many: Site, figure: Figure) -> None:
    page = many.page("/")
    took = painted_ms(page, many.address("/"), LIST_MS)
    size = len(page.content().encode())
    expect(page.locator("tr.s")).to_have_count(100)
    expect(page.locator(".count")).to_have_text("10,001 sessions")
    assert size < 110_000, f"{size} bytes"
    figure(
        "G27",
        f"first page of {SESSIONS:,} sessions: {took:.0f} ms to paint, {size:,} bytes",
    )


def test_older_pages_follow_without_gap_or_duplicate(many: Site) -> None:
    page = many.page("/")
    names = ["long", *(f"task-{n:05d}" for n in range(9_999, -1, -1))]
    for number in range(3):
        expected = names[100 * number : 100 * number + 100]
        expect(page.locator("tr.s").last).to_have_attribute("data-ref", expected[-1])
        assert page.locator("tr.s").evaluate_all("all => all.map(row => row.dataset.ref)") == expected
        page.get_by_role("link", name="next ›").click()


def test_a_session_is_found_among_ten_thousand(many: Site) -> None:
    page = many.page("/")
    page.keyboard.press("/")
    page.keyboard.type("ticket 4321 of")
    page.keyboard.press("Enter")
    expect(page.locator(".found h2 a")).to_have_text("task-04321")
    page.locator(".found h2 a").click()
    expect(page.locator("h1")).to_have_text("task-04321")
    page.goto(many.address("/?q=ticket+4321+of"))
    expect(page.locator("tr.s .name a")).to_have_text("task-04321")


def test_what_was_said_is_found_among_ten_thousand_and_opens_at_its_step(many: Site) -> None:
    page = many.page("/")
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    hit = page.locator(".found li").first
    expect(hit.locator("mark")).to_have_text("needle")
    hit.locator("a").click()
    expect(page.locator(".row.here")).to_contain_text("needle")
    expect(page.locator(".row.here")).to_be_in_viewport()


def test_what_a_filter_or_an_order_hides_is_counted(many: Site) -> None:
    page = many.page("/?sort=cost")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("COST")
    page.goto(many.address("/?status=failed"))
    expect(page.locator(".tail")).to_contain_text("100 shown that match status=failed")
    expect(page.get_by_role("link", name="next ›")).to_be_visible()


def test_a_long_session_opens_at_its_end_and_earlier_steps_come_on_request(many: Site, figure: Figure) -> None:
    session = many.rl.sessions.get("long").id
    page = many.page(f"/sessions/{session}")
    took = painted_ms(page, many.address(f"/sessions/{session}"), SESSION_MS)
    size = len(page.content().encode())
    shown = page.locator("#rows > .row").count()
    assert 150 < shown <= 200
    figure("G27", f"a session of {STEPS:,} steps: {took:.0f} ms to paint, {size:,} bytes")
    before = page.locator("#rows > .row").first.get_attribute("data-seq")
    page.evaluate("document.querySelector('[data-more=earlier]').scrollIntoView()")
    page.locator("[data-more=earlier]").click()
    expect(page.locator(f"#rows > [data-seq='{int(before or 0) - 1}']")).to_have_count(1)
    seqs = page.locator("#rows > .row:not(.rule)").evaluate_all("all => all.map(row => Number(row.dataset.seq))")
    assert seqs == list(range(seqs[0], seqs[-1] + 1)) and len(seqs) > 390


def test_the_last_loaded_row_is_found_by_the_browser_itself(many: Site) -> None:
    page = many.page(f"/sessions/{many.rl.sessions.get('long').id}")
    assert page.evaluate(f"find('message {STEPS - 1}')"), "Ctrl+F does not reach the last row"
    assert page.locator("#rows > .row").last.evaluate("row => getComputedStyle(row).contentVisibility") == "auto"


def test_find_in_session_counts_every_hit_and_steps_through_them(many: Site) -> None:
    page = many.page(f"/sessions/{many.rl.sessions.get('long').id}")
    page.locator("#find").fill("needle")
    page.locator("#find").press("Enter")
    total = -(-STEPS // EVERY)
    expect(page.locator(".tools")).to_contain_text(f"1 of {total}")
    expect(page.locator(".row.here")).to_contain_text("message 0: needle")
    page.get_by_role("link", name="next ›").click()
    expect(page.locator(".tools")).to_contain_text(f"2 of {total}")
    expect(page.locator(".row.here")).to_contain_text(f"message {EVERY}: needle")


def test_a_conversation_is_paged(many: Site) -> None:
    page = many.page(f"/sessions/{many.rl.sessions.get('long').id}?tab=conversation")
    shown = page.locator(".said").count()
    assert 0 < shown <= 200
    page.get_by_role("link", name="‹ earlier").click()
    expect(page).to_have_url(re.compile("upto="))
    expect(page.locator(".said")).to_have_count(200)


def test_an_address_wins_over_where_a_session_would_open(many: Site) -> None:
    page = many.page(f"/sessions/{many.rl.sessions.get('long').id}?at=@2000")
    here = page.locator(".row.here")
    expect(here).to_have_attribute("data-seq", "2000")
    expect(here).to_be_in_viewport()
