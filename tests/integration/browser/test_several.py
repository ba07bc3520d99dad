"""Several at once by click and by key, pictures when they are asked for, and a phone that shows the end first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from relight.values.options import RunOptions
from relight.values.status import Failure
from tests.integration.browser.conftest import SCREENSHOTS, Site
from tests.integration.browser.test_access import violations

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def stopped(site: Site, directory: Path, name: str) -> None:
    site.rl.runs.create(["true"], RunOptions(directory=str(directory), agent="command", name=name))
    with site.rl.session(name) as s:
        s.fail("auth: refused (401)", failure=Failure(kind="auth"))


def test_what_is_finished_is_archived_as_chosen_and_what_moved_is_told(site: Site) -> None:
    for n in range(4):
        with site.rl.session(f"done-{n}") as s:
            s.complete(n)
    page = site.page("/")
    page.get_by_role("link", name="Archive finished…").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog [data-cancel]")).to_be_focused()
    expect(page.locator("#dialog [data-list]")).to_have_count(4)
    page.locator("#dialog label", has_text="done-2").locator("input").focus()
    page.keyboard.press("Space")
    site.rl.runs.send("done-3", "one more thing")
    page.locator("#dialog [data-confirm]").focus()
    page.keyboard.press("Enter")
    toast = page.locator(".toast")
    expect(toast).to_contain_text("2 archived, 1 not:")
    expect(toast).to_contain_text("done-3: ")
    expect(page.locator("tr.s")).to_have_count(2)
    assert {info.name for info in site.rl.sessions.list() if info.status != "archived"} == {"done-2", "done-3"}


def test_what_stopped_alike_is_resumed_on_a_phone_and_everything_is_told(site: Site, tmp_path: Path) -> None:
    for n in range(3):
        stopped(site, tmp_path, f"night-{n}")
    page = site.page("/", viewport={"width": 380, "height": 800}, color_scheme="dark")
    page.get_by_role("link", name="Resume them…").click()
    expect(page.locator("#dialog h2")).to_contain_text("the provider refused the key")
    assert violations(page) == []
    small = page.locator("#dialog button:visible").evaluate_all(
        "all => all.filter(e => e.getBoundingClientRect().height < 44).map(e => e.outerHTML)"
    )
    assert small == [] and page.evaluate("document.documentElement.scrollWidth") <= 380
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "several-narrow.png")
    page.locator("#dialog [data-confirm]").click()
    expect(page.locator(".toast")).to_contain_text("3 resumed", timeout=30_000)
    assert {site.rl.sessions.get(f"night-{n}").attempt for n in range(3)} == {2}


def test_a_phone_shows_the_end_and_a_picture_only_when_asked_for(site: Site) -> None:
    source: dict[str, Any] = {"type": "base64", "media_type": "image/png", "data": PNG}
    with site.rl.session("long", provider="anthropic") as s:
        s.append({"role": "user", "content": [{"type": "image", "source": source}]})
        for n in range(40):
            s.append({"role": "assistant" if n % 2 == 0 else "user", "content": f"message {n}"})
        session = str(s.id)
        context = site.context(viewport={"width": 380, "height": 800})
        page = site.page(f"/sessions/{session}", context=context)
        visible = page.locator("#rows > .row:visible")
        expect(visible).to_have_count(20)
        expect(page.locator("#unfold")).to_contain_text("22 rows before the last 20")
        s.append({"role": "user", "content": "news"})
        expect(page.locator("#rows")).to_contain_text("news")
        expect(visible).to_have_count(21)
        page.locator("#unfold button").click()
        expect(visible).to_have_count(43)
        s.complete(1)
    asked: list[str] = []
    page = site.page("/operations", context=context)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.address(f"/sessions/{session}?tab=conversation"))
    fold = page.locator("summary", has_text="image/png")
    expect(fold).to_be_visible()
    assert not [url for url in asked if "/picture?" in url], "not before it is asked for"
    fold.click()
    expect(page.locator("img.picture")).to_have_js_property("naturalWidth", 1)


def test_the_address_of_a_dialog_is_a_page_on_which_it_can_be_done(site: Site) -> None:
    for n in range(2):
        with site.rl.session(f"done-{n}") as s:
            s.complete(n)
    page = site.page("/do/archive")
    expect(page.locator("#dialog [data-cancel]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page).to_have_url(site.address("/"))
    for verb in ("stop", "resume", "label", "remove"):
        page.goto(site.address(f"/do/several/{verb}"))
        expect(page.locator("#dialog [data-cancel]")).to_be_focused()
    page.goto(site.address(f"/sessions/{site.rl.sessions.get('done-0').id}/do/archive"))
    page.locator("#dialog [data-confirm]").click()
    expect(page.locator(".toast")).to_contain_text("done-0 is archived")
    expect(page.locator("h1")).to_have_text("done-0")
    assert site.rl.sessions.get("done-1").status == "completed"


def test_a_long_dialog_is_read_from_its_beginning(site: Site) -> None:
    for n in range(60):
        with site.rl.session(f"session-with-a-long-name-{n}") as s:
            s.complete(n)
    for width in (1280, 390):
        page = site.page("/", viewport={"width": width, "height": 700})
        for address in ("/do/archive", "/do/several/remove"):
            page.goto(site.address(address))
            expect(page.locator("#dialog [data-cancel]")).to_be_focused()
            expect(page.locator("#dialog h2")).to_be_in_viewport()
            expect(page.locator("#dialog .boxes label").first).to_be_in_viewport()
            assert page.locator("#dialog .cmd code").evaluate("one => one.clientHeight") < 240
            named = page.locator("#dialog .cmd [data-copy]").evaluate(
                "one => one.dataset.copy.split('long-name').length"
            )
            assert named == 61, "what is cut in the dialog is copied whole"


def test_chosen_rows_stay_chosen_through_updates_and_are_removed_as_listed(site: Site) -> None:
    for n in range(103):
        with site.rl.session(f"done-{n:03}") as s:
            s.complete(n)
    page = site.page("/")
    box = page.get_by_label("choose done-101")
    box.focus()
    page.keyboard.press("Space")
    expect(page.locator("#picked")).to_contain_text("1 chosen")
    site.rl.runs.send("done-101", "more")
    expect(page.locator("tr.s", has_text="done-101")).to_contain_text("queued")
    expect(box).to_be_checked()
    assert violations(page) == []
    page.locator("[data-several=label]").click()
    page.get_by_label("Label (such as team)").fill("team")
    expect(page.locator("#dialog [data-confirm]")).to_be_disabled()
    page.get_by_label("Value").fill("web shop")
    expect(page.locator("#dialog .cmd code")).to_contain_text("relight label --add 'team=web shop'")
    assert violations(page) == []
    page.locator("#dialog [data-confirm]").click()
    expect(page.locator(".toast")).to_contain_text("1 labelled")
    assert site.rl.sessions.get("done-101").labels == {"team": "web shop"}
    page.get_by_label("choose done-101").check()
    page.get_by_label("all that match").check()
    page.locator("[data-several=archive]").click()
    expect(page.locator("#dialog h2")).to_have_text("Archive 103 sessions")
    page.locator("#dialog [data-confirm]").click()
    expect(page.locator(".toast")).to_contain_text("103 archived", timeout=60_000)
    assert site.rl.sessions.counts() == {"archived": 103}


def test_what_is_acknowledged_leaves_the_strip_and_a_new_failure_is_shown(site: Site) -> None:
    with site.rl.session("nightly") as s:
        s.fail("boom")
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator("#strip")).to_contain_text("Needs you 1")
    page.locator("details.more summary").click()
    page.get_by_role("link", name="Acknowledge…").click()
    expect(page.locator("#dialog .cmd code")).to_have_text("relight acknowledge nightly")
    problem = page.locator("#dialog [data-problem]")
    for typed in ("8h", "Infinity", "-1"):  # refused, and not taken for an empty field: that is until something new
        page.locator("#dialog input[name=hours]").fill(typed)
        page.locator("#dialog [data-confirm]").click()
        expect(problem).to_contain_text("hours: Input should be")
        expect(problem).not_to_contain_text("openapi")
        page.locator("#dialog input[name=hours]").fill("")
    page.locator("#dialog [data-confirm]").click()
    expect(page.locator("#strip")).to_contain_text("Nothing needs you")
    with site.rl.session("nightly") as s:
        s.fail("boom again")
    expect(page.locator("#strip")).to_contain_text("Needs you 1")
