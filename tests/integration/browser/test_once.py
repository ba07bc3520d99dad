"""Whatever goes wrong between a page and its server, an act is done once, or told as not done; and pages come back."""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.integration.browser.conftest import Site, stranger
from tests.integration.browser.test_acting import confirm, editing
from tests.integration.browser.test_live import working
from tests.support.figures import Figure
from tests.support.load import allowed
from tests.support.server_process import Server
from tests.support.shell import Shell, eventually
from tests.unit.server.conftest import fill

HOUR_SECONDS, TICK_SECONDS = 3600, 30
BACK_SECONDS = 3.0
"""within which a page is live again"""


def live(page: Page) -> None:
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def back(began: float, page: Page) -> float:
    """How long a page took to be live again."""
    live(page)
    took = time.monotonic() - began
    assert took <= allowed(BACK_SECONDS), f"{took:.1f} s"
    return took


def losing(page: Page, host: str, port: int) -> list[int]:
    """Every first request of a key reaches the server, and its answer nobody; returns the statuses of those."""
    known: set[str] = set()
    lost: list[int] = []

    def lose(route: Any) -> None:
        asked = route.request
        key = asked.headers.get("idempotency-key", "")
        if not key or key in known:
            route.continue_()
            return
        known.add(key)
        there = http.client.HTTPConnection("127.0.0.1", port)
        path = urlsplit(asked.url).path
        there.request(asked.method, path, body=asked.post_data, headers={**asked.all_headers(), "Host": host})
        lost.append(there.getresponse().status)
        there.close()
        route.abort()

    page.route("**/api/**", lose)
    return lost


def acts(site: Site, work: Path) -> list[tuple[str, dict[str, str], str]]:
    """One of each kind: the address of its dialog, what is typed and chosen, and what is said when it is done."""
    fill(site.rl)
    files = editing(site, work)
    of = {name: site.rl.sessions.get(name).id for name in ("fix-login", "changelog", "nightly-docs", "port-to-uv")}
    return [
        (f"/sessions/{of['fix-login']}/do/send", {"Answer": "yes"}, "answered fix-login"),
        (f"/checkpoints/{of['changelog']}@2/do/label", {"Name": "here"}, "changelog@2 is labelled"),
        (f"/sessions/{of['changelog']}/do/archive", {}, "changelog is archived"),
        (f"/sessions/{of['nightly-docs']}/do/acknowledge", {}, "nightly-docs"),
        (f"/checkpoints/{files}@before/do/rewind", {"both": ""}, "files was rewound to @3"),
    ]


def choose(page: Page, given: dict[str, str]) -> None:
    for label, text in given.items():
        field = page.locator("#dialog").get_by_label(label, exact=not text)
        field.fill(text) if text else field.check()


def counted(site: Site) -> dict[str, tuple[int, int, str]]:
    return {info.id: (info.seq, info.head, info.status) for info in site.rl.sessions.list()}


def test_an_act_whose_answer_is_lost_is_done_once_and_told_when_it_is_pressed_again(site: Site, tmp_path: Path) -> None:
    given = acts(site, tmp_path / "work")
    page = site.page("/operations")
    lost = losing(page, f"{site.harness.guard.own_name}:{site.port}", site.port)
    for number, (address, typed, said) in enumerate(given, 1):
        page.evaluate("address => relight.openDialog(address)", address)
        choose(page, typed)
        confirm(page).click()
        expect(page.locator("dialog [data-problem]")).to_contain_text("it is not known whether it was done")
        assert len(lost) == number and lost[-1] in (200, 201), address
        done = counted(site)
        confirm(page).click()
        expect(page.locator(".toast").last).to_contain_text(said)
        assert counted(site) == done, f"{address} was done again"
        live(page)
    page.goto(site.address(f"/sessions/{site.rl.sessions.get('files').id}"))
    assert (tmp_path / "work" / "a.txt").read_text() == "first\n"


def test_a_double_click_is_one_act(site: Site, tmp_path: Path) -> None:
    given = acts(site, tmp_path / "work")
    page = site.page("/operations")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.method != "GET" else None)
    for number, (address, typed, said) in enumerate(given, 1):
        page.evaluate("address => relight.openDialog(address)", address)
        choose(page, typed)
        confirm(page).dblclick()
        expect(page.locator(".toast").last).to_contain_text(said)
        live(page)
        assert len(asked) == number, (address, asked)


def test_what_came_of_an_act_is_told_also_where_its_dialog_was_closed_meanwhile(site: Site) -> None:
    fill(site.rl)
    of = {name: site.rl.sessions.get(name).id for name in ("changelog", "nightly-docs")}
    page = site.page("/")
    live(page)
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    def taken() -> Any:
        eventually(lambda: page.title() and held, what="a request that is held back")
        return held.pop()

    page.route("**/api/**/label", hold)
    second = page.get_by_role("heading", name="Acknowledge nightly-docs")

    def pressed_and_left(label: str) -> Any:
        """The request of a dialog that is not there any more when it is answered; another one is."""
        page.evaluate("address => relight.openDialog(address)", f"/checkpoints/{of['changelog']}@2/do/label")
        page.get_by_label("Name", exact=False).last.fill(label)
        confirm(page).click()
        route = taken()
        page.locator("dialog [data-cancel]").click()
        page.evaluate("address => relight.openDialog(address)", f"/sessions/{of['nightly-docs']}/do/acknowledge")
        expect(second).to_be_visible()
        return route

    toast = page.locator(".toast").last
    pressed_and_left("123").continue_()
    expect(toast).to_contain_text("Label changelog@2: not a valid label: '123'")
    pressed_and_left("here").abort()
    expect(toast).to_contain_text("it is not known whether it was done")
    toast.get_by_role("button", name="Try again").dispatch_event("click")
    taken().continue_()
    expect(toast).to_contain_text("✓ changelog@2 is labelled")
    pressed_and_left("there").continue_()
    expect(toast).to_contain_text("✓ changelog@2 is labelled")
    expect(second).to_be_visible()


def test_two_tabs_with_the_same_dialog_do_it_once_and_the_second_is_told(site: Site, tmp_path: Path) -> None:
    given = acts(site, tmp_path / "work")
    context = site.context()
    first, second = site.page("/operations", context=context), site.page("/operations", context=context)
    for address, typed, said in given:
        if address.endswith(("/label", "/acknowledge")):
            continue  # the same again changes nothing
        for page in (first, second):
            page.evaluate("address => relight.openDialog(address)", address)
            choose(page, typed)
        confirm(first).click()
        expect(first.locator(".toast").last).to_contain_text(said)
        done = counted(site)
        confirm(second).click()
        expect(second.locator("dialog [data-problem]")).to_contain_text("othing was done")
        for text in filter(None, typed.values()):
            expect(second.locator("dialog textarea")).to_have_value(text)
        assert counted(site) == done, address
        second.keyboard.press("Escape")
        live(first)


def test_an_answer_from_a_list_that_is_behind_is_not_sent_to_another_question(site: Site) -> None:
    fill(site.rl)
    page = site.page("/")
    page.get_by_role("button", name="peek into fix-login").click()
    box = page.locator(".peekbox")
    box.get_by_label("Answer").fill("yes, push")
    site.rl.runs.send("fix-login", "no, wait")
    done = counted(site)
    box.get_by_role("button", name="Answer").click()
    expect(page.locator(".toast")).to_contain_text("nothing was done")
    assert counted(site) == done


def test_undo_takes_back_what_was_done_here_and_not_what_somebody_did_since(site: Site, tmp_path: Path) -> None:
    session = editing(site, tmp_path / "work")
    site.rl.history.rewind(f"{session}@4", conversation=True, files=False)
    page = site.page(f"/checkpoints/{session}@before")
    page.locator("[data-verb=rewind]").click()
    page.get_by_label("the conversation").check()
    confirm(page).click()
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    site.rl.history.undo(session)
    done = counted(site)
    undo.click()
    expect(page.locator(".toast")).to_contain_text("not undone")
    assert counted(site) == done, "the rewind before it was undone too"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_act_goes_on_over_a_restart_of_the_server_and_the_pages_are_live_again(
    tmp_path: Path, browser: Browser, how: Any, figure: Figure
) -> None:
    (tmp_path / "work").mkdir()
    shell = Shell(tmp_path / "p.db", tmp_path / "work")
    with Server(shell) as server:
        _restarted(server, stranger(browser), how, figure)


def _restarted(server: Server, context: BrowserContext, how: signal.Signals, figure: Figure) -> None:
    status, made = server.call("POST", "/api/sessions", {"name": "job", "command": ["true"], "directory": "/"})
    assert status == 201, made
    session = made["session"]["id"]
    page, other = context.new_page(), context.new_page()
    page.goto(server.link)
    home = page.url
    page.goto(f"{home}sessions/{session}")
    other.goto(home)
    for one in (page, other):
        live(one)
    lost = losing(page, urlsplit(home).netloc, int(urlsplit(home).port or 0))
    page.evaluate("address => relight.openDialog(address)", f"/sessions/{session}/do/fork")
    confirm(page).click()
    expect(page.locator("dialog [data-problem]")).to_contain_text("it is not known whether it was done")
    assert lost == [201]
    server.process.send_signal(how)
    server.process.wait(60)
    expect(other.locator("#live")).not_to_have_attribute("data-state", "live")
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.words = ("--port", server.base.rpartition(":")[2])
    server.start()
    took = back(time.monotonic(), other)
    figure("G27", f"a page is live {took:.1f} s after its server is back from {how.name}")
    confirm(page).click()
    page.wait_for_url(lambda url: "/sessions/" in url and session not in url)
    forks = [one for one in server.call("GET", "/api/sessions")[1]["items"] if one["parent"]]
    assert [one["id"] for one in forks] == [page.url.rpartition("/")[2]], "made once, and this is it"
    context.close()


def test_after_an_hour_offline_pages_miss_nothing_and_are_live_again(site: Site, sample: Callable[..., int]) -> None:
    steps = sample(700, proof=5000)
    s: Any = working(site, "long")
    ends = [working(site, f"ends-{n}", 1) for n in range(12)]
    context, tries = site.context(), list[str]()
    context.clock.install()
    listing, page = site.page("/", context=context), site.page(f"/sessions/{s.id}", context=context)
    for one in (listing, page):
        live(one)
    context.set_offline(True)
    for one in (listing, page):
        expect(one.locator("#gone")).to_contain_text("This browser is offline since")
        one.on("requestfailed", lambda request: tries.append(request.url))
    left = page.evaluate("Date.now()")
    for _ in range(HOUR_SECONDS // TICK_SECONDS):  # whatever timer of the pages is due in that time runs
        context.clock.run_for(TICK_SECONDS * 1000)
    assert page.evaluate("Date.now()") - left >= HOUR_SECONDS * 1000 and len(tries) > HOUR_SECONDS // TICK_SECONDS
    expect(page.locator("#gone")).to_contain_text("This browser is offline since")
    for n in range(steps):
        s.append({"role": "assistant", "content": f"unseen {n}"})
    for n, one in enumerate(ends):
        one.fail("broken") if n % 2 else one.complete("over")
    began = time.monotonic()
    context.set_offline(False)
    live(listing)
    back(began, page)
    expect(page.locator("#rows")).to_contain_text(f"unseen {steps - 1}")
    seqs = page.locator("#rows > .row:not(.rule)").evaluate_all("all => all.map(row => Number(row.dataset.seq))")
    assert seqs == list(range(seqs[0], site.rl.sessions.get("long").seq + 1))
    for n in range(len(ends)):
        row = listing.locator(f"tr.s[data-ref=ends-{n}] .status")
        expect(row).to_contain_text("failed" if n % 2 else "completed")
    expect(listing.locator("#strip")).to_contain_text("Needs you 6")
    expect(listing).to_have_title("(6) Sessions · relight")
    for one in (*ends, s):
        one.close()
