"""Restarts, lost connections, first visits and ways back: what a page says of itself and of others stays true."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.browser.conftest import Site, ready, stranger
from tests.integration.browser.test_live import working
from tests.support.journals import Player
from tests.support.load import allowed
from tests.support.server_process import Server
from tests.support.shell import Shell, environment
from tests.unit.server.conftest import fill

BACK_MS = 3000


def live(page: Page) -> None:
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


DIES = """
import os, relight
s = relight.session("lost")
s.append({"role": "user", "content": "go"})
os._exit(0)
"""


def test_a_new_name_reaches_every_open_page_also_of_a_finished_session(site: Site) -> None:
    """No step records it, and another process may have given it."""
    with site.rl.session("Draft") as s:
        s.complete(1)
    listed, page = site.page("/"), site.page(f"/sessions/{s.id}")
    live(listed)
    live(page)
    site.rl.sessions.update("Draft", name="Final", labels={"team": "web"})
    expect(page.locator("h1")).to_have_text("Final")
    expect(page.locator("#head")).to_contain_text("team=web")
    expect(page).to_have_title("Final · relight")
    expect(listed.locator("tr.s .name")).to_contain_text("Final")
    site.rl.sessions.update("Final", labels={"team": "shop"})
    expect(page.locator("#head")).to_contain_text("team=shop")


def test_the_page_of_a_session_that_was_removed_says_so_and_not_that_nothing_answers(site: Site) -> None:
    with site.rl.session("gone") as s:
        s.complete(1)
    page = site.page(f"/sessions/{s.id}")
    live(page)
    site.rl.sessions.remove("gone")
    expect(page.locator("#gone")).to_contain_text("This is no longer there since")
    expect(page.locator("#live")).to_have_text("removed")


def test_a_session_whose_process_died_is_nowhere_counted_as_working(site: Site) -> None:
    s = working(site)
    store = site.harness.store
    subprocess.run([sys.executable, "-c", DIES], env=environment(store), check=True)
    page, chosen = site.page("/"), "#filters [name=status] option[value={}]"
    expect(page.locator(chosen.format("working"))).to_have_text("working (1)")
    expect(page.locator(chosen.format("terminated"))).to_have_text("terminated (1)")
    expect(site.page("/operations").locator("#main")).to_contain_text("1 working")
    s.complete(1)
    expect(page.locator(chosen.format("working"))).to_have_text("working (0)")
    expect(page.locator("tr.s", has_text="completed")).to_have_count(1)
    expect(page.locator(chosen.format("terminated"))).to_have_text("terminated (1)")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_page_is_live_again_after_the_server_was_restarted(tmp_path: Path, browser: Browser, how: Any) -> None:
    """W-B2. At the same port, as a service is; within three seconds of its first answer."""
    (tmp_path / "work").mkdir()
    with Server(Shell(tmp_path / "p.db", tmp_path / "work")) as server:
        port = server.base.rpartition(":")[2]
        page = stranger(browser).new_page()
        page.goto(server.link)
        live(page)
        server.process.send_signal(how)
        server.process.wait(60)
        expect(page.locator("#live")).not_to_have_attribute("data-state", "live")
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.words = ("--port", port)
        server.start()
        expect(page.locator("#live")).to_have_attribute("data-state", "live", timeout=allowed(BACK_MS))
        expect(page.locator("#gone")).to_be_hidden()
        page.context.close()


def test_what_does_not_answer_is_named(site: Site) -> None:
    s = working(site)
    context = site.context()
    page = site.page(f"/sessions/{s.id}", context=context)
    live(page)
    context.set_offline(True)
    expect(page.locator("#gone")).to_contain_text("This browser is offline since")
    expect(page.locator("#live")).to_have_text("offline")
    s.append({"role": "assistant", "content": "meanwhile"})
    context.set_offline(False)
    expect(page.locator("#rows")).to_contain_text("meanwhile")
    expect(page.locator("#gone")).to_be_hidden()
    live(page)
    page.route("**/news?*", lambda route: route.abort())
    page.evaluate("relight.paint()")
    expect(page.locator("#gone")).to_contain_text("The server does not answer since")
    page.unroute("**/news?*")
    expect(page.locator("#gone")).to_be_hidden()
    s.complete()
    s.close()


def test_a_page_whose_stream_was_ended_says_why_and_asks_again(site: Site) -> None:
    """A session that was damaged when it was last read may be repaired, and then its page must not stay behind."""
    s = working(site)
    context = site.context()
    over = 'event: over\ndata: {"why": "damaged: a step cannot be read"}\n\n'
    context.route("**/events?*", lambda route: route.fulfill(content_type="text/event-stream", body=over), times=1)
    page = site.page(f"/sessions/{s.id}", context=context)
    expect(page.locator("#live")).to_have_text("not live: damaged: a step cannot be read")
    live(page)
    s.append({"role": "assistant", "content": "gone on"})
    expect(page.locator("#rows")).to_contain_text("gone on")
    s.complete()
    s.close()


def test_a_first_visit_marks_nothing_as_new_and_going_back_restores_the_filters(site: Site) -> None:
    """W-B9, W-B10, W-B11, W-B12."""
    fill(site.rl)
    page = site.page("/")
    live(page)
    page.evaluate("async () => { await relight.read(); await relight.read(); }")
    expect(page.locator(".unseen")).to_have_count(0)
    page.get_by_label("Status").select_option("failed")
    expect(page.locator("tr.s")).to_have_count(1)
    page.go_back()
    expect(page.locator("tr.s")).to_have_count(4)
    expect(page.get_by_label("Status")).to_have_value("")
    page.keyboard.press("n")
    expect(page.locator("tr.s.on")).to_have_attribute("data-attention", "1")
    names = page.locator("tr.s").evaluate_all("all => all.map(row => row.dataset.ref)")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("CREATED")
    page.get_by_role("link", name="CREATED").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("CREATED")
    ready(page)
    assert page.locator("tr.s").evaluate_all("all => all.map(row => row.dataset.ref)") == names[::-1]


def test_a_link_to_a_step_of_a_tool_leads_to_it_and_a_hit_is_marked(site: Site) -> None:
    """W-B4, W-B5."""
    s = working(site, steps=60)
    call = {"id": "c1", "type": "function", "function": {"name": "deploy", "arguments": '{"to": "prod"}'}}
    s.append({"role": "assistant", "content": "I deploy.", "tool_calls": [call]})
    s.run_tool(s.pending_calls()[0], {"deploy": lambda to: "48 passed"})
    for n in range(60):
        s.append({"role": "assistant", "content": f"after {n}"})
    at = next(event.seq for event in site.rl.history.events(s.id) if event.outcomes)
    for address in (f"?at=@{at}", f"?at=@{at - 1}", "?q=48 passed"):
        page = site.page(f"/sessions/{s.id}{address}")
        live(page)
        page.evaluate("relight.read()")
        expect(page.locator("#rows .here")).to_contain_text("deploy")
        expect(page.locator("#rows .here")).to_be_in_viewport()
    expect(page.locator(".hit mark")).to_have_text("48 passed")
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#rows > .row").last).to_be_in_viewport()
    s.complete("over")
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#head h1")).to_be_in_viewport()
    s.close()


def test_every_tab_that_says_live_is(site: Site) -> None:
    """W-B6."""
    s = working(site, steps=1)
    context = site.context()
    pages = {tab: site.page(f"/sessions/{s.id}?tab={tab}", context=context) for tab in ("conversation", "calls", "raw")}
    pages["operations"] = site.page("/operations", context=context)
    for page in pages.values():
        live(page)
    call = {"id": "c1", "type": "function", "function": {"name": "deploy", "arguments": "{}"}}
    s.append({"role": "assistant", "content": "I deploy now.", "tool_calls": [call]})
    s.run_tool(s.pending_calls()[0], {"deploy": lambda: "up"})
    expect(pages["conversation"].locator("#tab")).to_contain_text("I deploy now.")
    expect(pages["calls"].locator("#tab")).to_contain_text("deploy")
    expect(pages["raw"].locator("#tab")).to_contain_text(f'"seq": {site.rl.sessions.get(s.id).seq}')
    s.fail("broken")
    expect(pages["operations"].locator("#main")).to_contain_text("broken")
    s.close()


@pytest.mark.parametrize("query", ["", "?density=steps", "?show=tools"])
def test_a_page_opened_before_the_first_step_becomes_the_page_that_it_would_be(site: Site, query: str) -> None:
    player = Player(site.rl, "claude-code", "job")
    page = site.page(f"/sessions/{player.session}{query}")
    expect(page.locator("#none")).to_have_text("No steps yet.")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    player.play()
    fresh = site.page(f"/sessions/{player.session}{query}")
    expect(page.locator("#rows > .row")).to_have_count(fresh.locator("#rows > .row").count())
    expect(page.locator("#none")).to_have_count(0)
    for part in ("#axis", "#next-problem"):
        expect(page.locator(part)).to_be_visible()
    expect(page.locator("#next-problem")).to_have_text(fresh.locator("#next-problem").inner_text())
    if "show" in query:
        expect(page.locator("#hidden")).to_have_text(fresh.locator("#hidden").inner_text())


def test_what_happens_to_children_and_forks_reaches_the_page_of_their_session(site: Site) -> None:
    with site.rl.session("research") as s:
        s.append({"role": "user", "content": "go"})
        history, tree = site.page(f"/sessions/{s.id}"), site.page(f"/sessions/{s.id}?tab=forks")
        expect(history.locator("#live")).to_have_attribute("data-state", "live")
        with s.spawn("ada") as child:
            expect(history.locator(".tabs")).to_contain_text("Tree 1")
            s.complete("its child goes on")
            expect(tree.locator("#tab")).to_contain_text("● working")
            child.complete("done")
    expect(tree.locator("#tab")).to_contain_text("✓ completed")
    expect(tree.locator("#tab")).not_to_contain_text("working")
    site.rl.history.fork("research", name="another-way")
    expect(tree.locator("#tab")).to_contain_text("another-way")
    expect(tree.locator(".tabs")).to_contain_text("Tree 2")


def test_a_queued_session_says_what_it_waits_for_and_that_no_worker_serves_its_queue(site: Site) -> None:
    """W-B7, in the list, on its page and in the API; the command line reads the same words."""
    rl = site.rl
    rl.queues.submit(["true"], name="nobody", queue="nightly")
    rl.queues.submit(["true"], name="planned", queue="nightly", not_before=7200.0)
    page = site.page("/")
    expect(page.locator("tr.s[data-ref=nobody] .nowcell")).to_contain_text("in line in nightly, which no worker serves")
    expect(page.locator("tr.s[data-ref=planned] .nowcell")).to_contain_text("scheduled for")
    assert [rl.sessions.get(name).queued_as for name in ("nobody", "planned")] == ["in_line", "scheduled"]
    page = site.page(f"/sessions/{rl.sessions.get('nobody').id}")
    expect(page.locator("#head .say").first).to_contain_text("which no worker serves")
    page = site.page("/operations")
    expect(page.locator("#main")).to_contain_text("no worker serves it")
