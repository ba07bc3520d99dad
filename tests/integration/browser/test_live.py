"""Live: what happens appears by itself, and nothing that a person is looking at moves."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from playwright.sync_api import Page, expect

from tests.integration.browser.conftest import Site
from tests.support.shell import eventually
from tests.unit.server.test_push import ask


def working(site: Site, name: str = "job", steps: int = 3) -> Any:
    """A session that this process owns and goes on with."""
    s = site.rl.session(name, agent="mine", provider="openai")
    for n in range(steps):
        s.append({"role": "user" if n % 2 == 0 else "assistant", "content": f"step {n}"})
    return s


def seqs(page: Page) -> list[int]:
    return [
        int(text) for text in page.locator("#rows > .row:not(.rule)").evaluate_all("all => all.map(r => r.dataset.seq)")
    ]


def hide(page: Page, hidden: bool) -> None:
    """As a browser does when another tab is in front."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


def test_a_live_session_grows_by_itself_and_says_how_it_ended(site: Site) -> None:
    s = working(site)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator("#head .status")).to_contain_text("working")
    s.append({"role": "assistant", "content": "and one more"})
    expect(page.locator("#rows")).to_contain_text("and one more")
    expect(page.locator("#head")).to_contain_text("head @5")
    s.complete("done")
    expect(page.locator("#head .status")).to_contain_text("completed")
    shown = seqs(page)
    assert shown == sorted(set(shown)), "a step is missing or there twice"
    s.close()


def test_a_tool_that_ends_changes_its_own_row(site: Site) -> None:
    s = working(site, steps=1)
    call = {"id": "c1", "type": "function", "function": {"name": "deploy", "arguments": "{}"}}
    s.append({"role": "assistant", "content": "I deploy.", "tool_calls": [call]})
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")

    def deploy() -> str:
        expect(page.locator(".calls li", has_text="deploy")).to_contain_text("…")
        return "up"

    s.run_tool(s.pending_calls()[0], {"deploy": deploy})
    expect(page.locator(".calls li", has_text="deploy")).to_contain_text("✓")
    expect(page.locator(".calls li")).to_have_count(1)
    s.complete()
    s.close()


def test_an_answer_that_is_late_does_not_undo_a_later_one(site: Site) -> None:
    s = working(site)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    held: list[Any] = []

    def hold(route: Any) -> None:
        if held:
            route.continue_()
        else:
            path = route.request.url.removeprefix(site.address(""))
            held.append((route, site.harness.client().get(path, headers={"X-Relight-Part": "1"}).text))

    page.route("**/news?*", hold)
    page.evaluate("globalThis.first = relight.read(), 0")
    eventually(lambda: page.title() and held, what="an answer that is held back")
    s.append({"role": "assistant", "content": "the newest"})
    page.evaluate("globalThis.second = relight.read(), 0")
    page.wait_for_timeout(300)  # time for the second to be asked, were it not in line
    held[0][0].fulfill(body=held[0][1], content_type="text/html")
    page.evaluate("Promise.all([first, second])")
    # The text itself, because a row that was not drawn yet has no inner text.
    assert "the newest" in (page.locator("#rows").text_content() or "")  # at once: the next paint would mend it
    s.complete()
    s.close()


def test_scrolled_up_nothing_moves_and_new_steps_are_counted(site: Site) -> None:
    s = working(site, steps=80)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate("dispatchEvent(new Event('wheel')); scrollTo(0, 300)")
    page.evaluate("new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))")  # drawn where one is now
    # By what is seen: rows above that get their height later move the scroll position, and nothing on the screen.
    first = "[...document.querySelectorAll('#rows > .row')].find(one => one.getBoundingClientRect().top > 0)"
    seen, top = page.evaluate(f"(one => [one.id, one.getBoundingClientRect().top])({first})")
    for n in range(50):
        s.append({"role": "assistant", "content": f"new {n}"})
    pill = page.locator("#pill")
    expect(pill).to_have_text("50 new steps ↓")
    assert abs(page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", seen) - top) < 3
    pill.click()
    expect(pill).to_be_hidden()
    expect(page.locator("#rows > .row").last).to_be_in_viewport()
    s.complete()
    s.close()


def test_a_row_keeps_its_place_while_its_status_changes(site: Site) -> None:
    others = [working(site, f"other-{n}", 1) for n in range(3)]
    s = working(site, "moving", 1)
    newer = working(site, "newer", 1)
    page = site.page("/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    row = page.locator("tr.s[data-ref=moving]")

    def location() -> int:
        return int(page.locator("tr.s").evaluate_all("all => all.findIndex(row => row.dataset.ref === 'moving')"))

    seen = [location()]
    for status in ("failed", "working", "halted", "working", "completed"):
        if status == "working":
            s = site.rl.session("moving")
        else:
            {"failed": s.fail, "halted": s.halt, "completed": s.complete}[status]("why")
        expect(row.locator(".status")).to_contain_text(status)
        seen.append(location())
    assert seen == [1] * 6
    for one in (*others, newer):
        one.complete()
        one.close()


def test_a_new_session_waits_behind_a_bar(site: Site) -> None:
    s = working(site, "first")
    page = site.page("/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    second = working(site, "second")
    expect(page.locator("#newer")).to_have_text("1 new session - show")
    expect(page.locator("tr.s")).to_have_count(1)
    page.locator("#newer").click()
    expect(page.locator("tr.s")).to_have_count(2)
    for one in (s, second):
        one.complete()
        one.close()


def test_what_one_points_at_stays_under_the_pointer(site: Site) -> None:
    first, second = working(site, "first"), working(site, "second")
    page = site.page("/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    row = page.locator("tr.s[data-ref=first]")
    row.hover()
    where = "row => row.getBoundingClientRect().top"
    before = row.evaluate(where)
    second.fail("broken")
    third = working(site, "third")
    expect(page.locator("#newer")).to_be_visible()
    expect(page.locator("#strip")).to_contain_text("Needs you 1")
    page.get_by_label("choose second").check()
    expect(page.locator("#picked")).to_be_visible()
    assert row.evaluate(where) == before, "the row moved under the pointer"
    for one in (first, third):
        one.complete()
        one.close()
    second.close()


def test_focus_selection_and_open_folds_survive_a_hundred_updates(site: Site) -> None:
    s = working(site, steps=6)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.locator("summary", has_text="More").click()
    page.locator("#head [data-copy]").first.focus()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#rows .row .tx'))")
    chosen = page.evaluate("getSelection().toString()")
    for n in range(100):
        s.append({"role": "assistant", "content": f"update {n}"})
    expect(page.locator("#head")).to_contain_text("head @107")
    assert page.evaluate("document.activeElement.dataset.copy") == s.id
    assert page.evaluate("getSelection().toString()") == chosen != ""
    assert page.locator("details.more").evaluate("fold => fold.open")
    s.complete()
    s.close()


def test_a_hidden_tab_holds_no_stream_and_misses_nothing(site: Site) -> None:
    s = working(site)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    hide(page, True)
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    for n in range(100):
        s.append({"role": "assistant", "content": f"unseen {n}"})
    assert len(seqs(page)) == 3
    hide(page, False)
    expect(page.locator("#rows")).to_contain_text("unseen 99")
    shown = seqs(page)
    assert shown == list(range(2, 105)), "a gap or a duplicate"
    for n in range(1000):
        hide(page, True) if n == 0 else None
        s.append({"role": "assistant", "content": f"asleep {n}"})
    hide(page, False)  # far more than a page: it is read anew, and says so
    expect(page.locator("#rows")).to_contain_text("asleep 999")
    shown = seqs(page)
    assert shown == sorted(set(shown))
    s.complete()
    s.close()


def test_nine_tabs_of_one_browser_all_load(site: Site) -> None:
    s = working(site)
    context = site.context()
    pages: list[Page] = []
    for n in range(9):
        for earlier in pages:  # only the tab in front is visible
            hide(earlier, True)
        pages.append(site.page(f"/sessions/{s.id}" if n % 2 else "/", context=context))
    # A browser has six connections to a server: where each tab held one, the seventh would never load.
    expect(pages[-1].locator("#live")).to_have_attribute("data-state", "live")
    s.complete()
    s.close()


def test_a_screen_reader_is_told_of_statuses_at_most_once_in_ten_seconds_and_never_of_steps(site: Site) -> None:
    s = working(site)
    context = site.context()
    page = site.page(f"/sessions/{s.id}", context=context)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate(
        """() => {
            globalThis.said = [];
            new MutationObserver(() => said.push([performance.now(), document.querySelector('#say').textContent]))
                .observe(document.querySelector('#say'), { childList: true, characterData: true, subtree: true });
        }"""
    )
    for n in range(20):
        s.append({"role": "assistant", "content": f"quietly {n}"})
    expect(page.locator("#rows")).to_contain_text("quietly 19")
    assert page.evaluate("said") == [], "a step was spoken"
    s.fail("one")
    expect(page.locator("#say")).to_contain_text("failed")
    again = site.rl.session("job")
    expect(page.locator("#head .status")).to_contain_text("working")
    again.complete("two")
    expect(page.locator("#head .status")).to_contain_text("completed")
    at = [when for when, _ in page.evaluate("said")]
    assert all(later - before > 9_900 for before, later in pairwise(at)), (
        f"two changes were spoken within ten seconds: {at}"
    )
    s.close()


def test_the_title_counts_what_needs_somebody(site: Site) -> None:
    s = working(site)
    page = site.page("/")
    expect(page).to_have_title("Sessions · relight")
    s.fail("broken")
    expect(page).to_have_title("(1) Sessions · relight")
    expect(page.locator("#strip")).to_contain_text("Needs you 1")
    expect(page.locator("#icon")).to_have_attribute("href", re.compile("icon-needs"))
    s.close()


def test_a_store_that_does_not_answer_is_said_and_what_was_read_stays(site: Site) -> None:
    s = working(site)
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.route("**/news?*", lambda route: route.fulfill(status=503, body="{}"))
    s.append({"role": "assistant", "content": "not yet seen"})
    expect(page.locator("#gone")).to_be_visible()
    expect(page.locator("#gone")).to_contain_text("The store does not answer since")
    expect(page.locator("#rows")).to_contain_text("step 2")
    page.unroute("**/news?*")
    page.evaluate("relight.paint()")
    expect(page.locator("#rows")).to_contain_text("not yet seen")
    expect(page.locator("#gone")).to_be_hidden()
    s.complete()
    s.close()


def test_what_needs_a_person_is_shown_on_every_open_page(site: Site) -> None:
    """Also beside the stream of another session, where there is no stream, and after what writes no step."""
    with working(site, "done", 2) as s:
        s.complete()
    done = s.id
    pages = [site.page(path) for path in (f"/sessions/{done}", f"/checkpoints/{done}@1", f"/compare?a={done}", "/docs")]
    ask(site.rl, "other", "shall I?")
    number = site.rl.sessions.needing().total
    ask(site.rl, "asker", "may I?")
    for page in pages:
        expect(page.locator("#strip strong")).to_have_text(f"Needs you {number + 1}")
        expect(page).to_have_title(re.compile(rf"^\({number + 1}\) "))
    site.rl.sessions.acknowledge("asker")
    site.rl.admin.pause(by="ada", reason="tea")
    for page in [*pages, site.page("/")]:
        expect(page.locator("#strip strong").last).to_have_text(f"Needs you {number}")
        expect(page.locator("#strip [role=status]")).to_contain_text("by ada: tea")
        expect(page.locator(".top [href='/do/pause']")).to_have_text("End the pause…")
    site.rl.admin.unpause()
    for page in pages:
        expect(page.locator(".top [href='/do/pause']")).to_have_text("Pause all…")


def test_the_list_says_what_was_removed_and_how_many_there_are(site: Site) -> None:
    working(site, "stays", 1).complete()
    gone = working(site, "gone", 1)
    gone.complete()
    gone.close()
    page = site.page("/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator("tr.s")).to_have_count(2)
    page.locator("tr.s[data-ref=gone] .chev").click()
    expect(page.locator(".peek")).to_be_visible()
    site.rl.sessions.remove("gone")
    expect(page.locator("tr.s")).to_have_count(1)
    expect(page.locator(".peek")).to_have_count(0)
    expect(page.locator("#filters .count")).to_have_text("1 session")
    expect(page.get_by_label("Status").locator("option").nth(1)).to_have_text("completed (1)")
