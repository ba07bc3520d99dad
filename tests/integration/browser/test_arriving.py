"""Coming in: by a link that works once, to a page that says what there is, also where there is nothing."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.sync_api import Page, expect

from tests.integration.browser.conftest import Site, stranger
from tests.unit.server.conftest import fill


def status_of(page: Page, address: str) -> int:
    """What the server answers to who goes there."""
    answer = page.goto(address)
    assert answer is not None
    return answer.status


def test_a_launch_link_logs_in_once_and_only_once(site: Site, browser: Any) -> None:
    fill(site.rl)
    context = stranger(browser)
    page = context.new_page()
    link = site.link()
    page.goto(link)
    expect(page).to_have_url(site.address("/"))
    expect(page.locator("tr.s")).to_have_count(4)
    assert [cookie["httpOnly"] for cookie in context.cookies()] == [True]
    context.close()
    other = stranger(browser)
    page = other.new_page()
    assert status_of(page, link) == 401
    expect(page.locator("body")).to_contain_text("relight serve --link")
    assert status_of(page, site.address("/")) == 401
    expect(page.locator("h1")).to_have_text("authentication required")
    other.close()


def test_another_server_of_this_machine_is_not_sent_the_login(site: Site, browser: Any) -> None:
    """S-H5: cookies know no port, so the login lives under a name that no other server has."""
    seen: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *given: Any) -> None:
            pass

    other = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    context = stranger(browser)
    page = context.new_page()
    page.goto(site.link())
    expect(page).to_have_url(site.address("/"))
    for host in ("127.0.0.1", "localhost", "another.localhost"):
        page.goto(f"http://{host}:{other.server_port}/")
    assert len(seen) >= 3 and set(seen) == {None}
    assert status_of(page, site.address("/")) == 200, "it is logged in all the same"
    context.close()
    other.shutdown()
    other.server_close()


def test_an_empty_store_says_how_to_begin(site: Site) -> None:
    page = site.page("/")
    expect(page.get_by_role("heading", name="No sessions yet.")).to_be_visible()
    for command in ("relight demo", "relight run -- claude"):
        expect(page.locator("main code", has_text=command).first).to_be_visible()


def test_a_filter_that_hides_everything_names_itself_and_how_to_clear_it(site: Site) -> None:
    fill(site.rl)
    page = site.page("/?status=failed&q=nothing-like-it")
    expect(page.get_by_role("heading", name="Nothing matches status=failed")).to_be_visible()
    page.get_by_role("link", name="clear").last.click()
    expect(page.locator("tr.s")).to_have_count(4)


def test_filters_live_in_the_address(site: Site) -> None:
    fill(site.rl)
    page = site.page("/")
    page.get_by_label("Status").select_option("failed")
    expect(page).to_have_url(site.address("/?q=&status=failed&agent=&directory=&since="))
    expect(page.locator("tr.s")).to_have_count(1)
    expect(page.locator(".tail")).to_contain_text("1 shown that match status=failed")


def test_what_is_not_there_is_a_page_with_a_way_back(site: Site) -> None:
    page = site.page("/")
    assert status_of(page, site.address("/sessions/no-such-one")) == 404
    expect(page.locator("main")).to_contain_text("no session matches 'no-such-one'")
    expect(page.get_by_role("link", name="sessions")).to_be_visible()


def test_a_removed_session_says_when_and_by_whom(site: Site) -> None:
    fill(site.rl)
    session = site.rl.sessions.get("changelog").id
    page = site.page(f"/sessions/{session}")
    page.locator("summary", has_text="More").click()
    page.locator("[data-verb=remove]").click()
    page.locator("dialog input[data-typed]").fill("changelog")
    page.get_by_role("button", name="Remove forever").click()
    expect(page).to_have_url(site.address("/"))
    expect(page.locator(".toast")).to_contain_text("changelog is removed")
    assert status_of(page, site.address(f"/sessions/{session}")) == 410
    expect(page.locator("main")).to_contain_text("removed")


def test_what_happened_while_nobody_looked_is_counted_from_the_journal(site: Site) -> None:
    fill(site.rl)
    page = site.page("/")
    expect(page.locator("#digest")).to_be_empty()
    page.evaluate("localStorage.setItem('relight.visited', String(Date.now() - 9 * 3600e3))")
    page.reload()
    digest = page.locator(".digest")
    expect(digest).to_contain_text("While you were away (9 h)")
    expect(digest).to_contain_text("1 finished")
    expect(digest).to_contain_text("1 waits for you")
    expect(digest).to_contain_text("$1.50")
    page.get_by_role("button", name="dismiss").click()
    expect(digest).to_have_count(0)
