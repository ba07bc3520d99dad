"""A session's history with the chosen step beside it: by mouse, by keys, by address, on a phone and without scripts."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

import relight
from relight.text import format as words
from tests.integration.browser.conftest import SCREENSHOTS, Site
from tests.integration.browser.test_access import unfolded, violations


def address(site: Site, name: str = "fix-login") -> str:
    return f"/sessions/{site.rl.sessions.get(name).id}"


def chosen(page: Page, seq: int) -> None:
    expect(page.locator("#step h2")).to_contain_text(f"@{seq}")
    expect(page).to_have_url(page.url.partition("?")[0] + f"?at=@{seq}")


def test_a_step_is_chosen_by_click_by_keys_and_by_its_address(scene: Site) -> None:
    page = scene.page(address(scene))
    page.locator("#rows .row[data-seq='3'] > .tx").click()
    chosen(page, 3)
    expect(page.locator("#step")).to_contain_text("I will look at the failing test.")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    seq = int(page.locator("#rows .here").get_attribute("data-seq") or 0)
    chosen(page, seq)
    assert seq > 3
    page.keyboard.press("Enter")
    expect(page.locator("#step")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#rows .here")).to_be_focused()
    page.reload()
    chosen(page, seq)
    after = int(page.locator("#step [rel=next]").get_attribute("data-step") or 0)
    page.locator("#step [rel=next]").click()
    chosen(page, after)
    page.locator("#step summary", has_text="what resuming").click()
    expect(page.locator("#step")).to_contain_text("NOT undone by a rewind")
    page.locator("#step summary", has_text="raw").click()
    expect(page.locator("#step pre.raw")).to_contain_text('"kind"')
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(".stick .status")).to_be_in_viewport()


def test_a_narrow_screen_shows_one_pane_at_a_time(scene: Site) -> None:
    page = scene.page(address(scene), viewport={"width": 390, "height": 800})
    expect(page.locator("#step")).to_be_hidden()
    page.locator("#rows .row:not(.earlier) .sq a").last.click()
    expect(page.locator("#step")).to_be_visible()
    expect(page.locator("#rows")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=SCREENSHOTS / "step-narrow.png")
    page.go_back()
    expect(page.locator("#rows")).to_be_visible()
    expect(page.locator("#step")).to_be_hidden()


def test_without_scripts_a_step_is_a_link_and_so_is_the_zoom(scene: Site) -> None:
    page = scene.context(java_script_enabled=False).new_page()
    page.goto(scene.address(address(scene)))
    page.locator("#rows .sq a", has_text="@3").first.click()
    expect(page.locator("#step")).to_contain_text("I will look at the failing test.")
    bar = page.locator("#rows svg.tl").first
    before = bar.get_attribute("viewBox") or ""
    page.get_by_role("link", name="zoom in").click()
    expect(bar).not_to_have_attribute("viewBox", before)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_panes_are_accessible(scene: Site, scheme: Any) -> None:
    page = scene.page(f"{address(scene)}?at=@6", color_scheme=scheme, viewport={"width": 1440, "height": 900})
    unfolded(page, "#step details")
    expect(page.locator("#step pre.raw")).to_be_visible()
    assert violations(page) == []
    page.screenshot(path=SCREENSHOTS / f"panes-{scheme}.png")
    page.get_by_role("link", name="zoom in").click()
    page.get_by_role("link", name="all", exact=True).click()
    page.goto(scene.address(f"{address(scene)}?tab=conversation"))
    assert violations(page) == []


def axis_of(page: Page) -> list[Any]:
    """What it covers, in words and as the scale of every bar, and its times with their places in percent."""
    scale = "one => [one.querySelector('svg.tl').viewBox.baseVal.width.toFixed(1)]"
    ticks = "all => all.map(one => [one.textContent, Math.round(parseFloat(one.getAttribute('x')))])"
    return [
        page.locator("#axis > .dim").text_content(),
        page.locator("#rows").evaluate(scale),
        page.locator("#axis text").evaluate_all(ticks),
    ]


def test_the_axis_of_a_page_that_dropped_rows_is_that_of_the_rows_it_has(site: Site) -> None:
    s = site.rl.session("long", provider="anthropic")
    s.append({"role": "user", "content": "begin"})
    page = site.page(address(site, "long"))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    for n in range(1300):
        s.append({"role": "assistant", "content": [{"type": "text", "text": f"update {n}"}]})
        if n % 100 == 99:  # a page that is too far behind begins anew, and has dropped nothing then
            expect(page.locator("#rows > .row").last).to_contain_text(f"update {n}")
    expect(page.get_by_role("link", name="earlier steps")).to_be_visible()
    s.close()
    page.evaluate("relight.read()")
    after = int(page.locator("#rows").get_attribute("data-after") or 0)
    assert after > 100
    low, high = (float(page.locator("#rows").get_attribute(f"data-{edge}") or 0) for edge in ("low", "high"))
    bars = "all => all.map(one => Number(one.getAttribute('x')))"
    first = min(page.locator("#rows svg.tl rect.model").evaluate_all(bars))
    assert low <= first and first - low < (high - low) / 10, f"the axis begins at {low}, its first bar at {first}"
    lasts = page.locator("#axis > .dim").text_content() or ""
    times = [one.at for one in site.rl.history.events(s.id, after=after - 1)]
    seconds = (times[-1] - times[0]).total_seconds()
    assert lasts == words.duration(seconds), f"{lasts} for {seconds} s"


def test_the_axis_grows_with_a_live_session_and_attempts_alike_stay_one_line(site: Site) -> None:
    for number in range(8):
        s = site.rl.session("loops", provider="anthropic")
        if number == 0:
            s.append({"role": "user", "content": "go"})
        s.fail("overloaded (529)")
        s.close()
    s = site.rl.session("loops", provider="anthropic")
    page = site.page(address(site, "loops"))
    fold = page.locator("#rows > .fold")
    expect(fold).to_have_count(1)
    expect(fold).to_contain_text("7 attempts alike")
    high = float(page.locator("#rows").get_attribute("data-high") or 0)
    for text in ("one", "two"):
        s.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
    expect(page.locator("#rows > .row", has_text="two")).to_have_count(1)
    expect(fold).to_have_count(1)
    ids = page.locator("#rows .row").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids)), "each row is there once"
    seqs = page.locator("#rows > .row").evaluate_all("all => all.map((one) => Number(one.dataset.seq))")
    assert seqs == sorted(seqs), "the rows are in the order of their steps"
    boxes = page.locator("#rows svg.tl").evaluate_all("all => [...new Set(all.map(e => e.getAttribute('viewBox')))]")
    assert len(boxes) == 1, "all bars have one scale"
    page.wait_for_function("high => Number(document.querySelector('#rows').dataset.high) > high", arg=high)
    s.close()  # what is over is measured alike by a page that is opened now
    page.evaluate("relight.read()")
    fresh = site.page(address(site, "loops"))
    assert axis_of(page) == axis_of(fresh), "the page that was open has other times on its axis"
    fold.locator("summary").click()
    expect(fold.locator(".row").first).to_be_visible()


def test_a_call_that_is_read_while_it_runs_gets_its_result(site: Site) -> None:
    s = site.rl.session("runs", provider="anthropic")
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}
    s.append({"role": "assistant", "content": [call]})

    @relight.tool(effect="idempotent")
    def Bash(command: str) -> str:
        page.goto(site.address(f"{address(site, 'runs')}?at=@{site.rl.sessions.get('runs').seq}"))
        expect(page.locator("#step")).to_contain_text("no result yet")
        page.locator("#step summary", has_text="raw").click()
        expect(page.locator("#step pre.raw")).to_be_visible()
        page.locator("#step").evaluate("pane => { pane.style.height = '90px'; pane.scrollTop = 40; }")
        return "it is built"

    page = site.page(address(site, "runs"))
    for one in s.pending_calls():
        s.run_tool(one, [Bash])
    expect(page.locator("#step")).to_contain_text("it is built")
    expect(page.locator("#step pre.raw")).to_be_visible()
    assert page.locator("#step").evaluate("pane => pane.scrollTop") == 40, "the place was lost under who reads"
    s.close()
