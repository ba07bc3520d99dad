"""For everybody: by keyboard, by screen reader, on a phone, in the dark, without scripts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, TimeoutError, expect

from tests.integration.browser.conftest import SCREENSHOTS, Site, every_page, ready
from tests.support.shell import eventually

AXE = Axe()
LIKE_ANOTHER = {"find", "fork", "compared"}
"""pages made of the same parts as one that is looked at"""


def unfolded(page: Page, folds: str) -> None:
    """Everything opened, and what is in it is being loaded."""
    page.evaluate(
        """async folds => {
             document.querySelectorAll(folds).forEach(fold => { fold.open = true; });
             await new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)));  // after their events
           }""",
        folds,
    )


def goes(page: Page, key: str, address: str) -> bool:
    """Whether `g` and a key led there: pressed by a slow hand they are two keys, as they should be."""
    ready(page)
    page.keyboard.press("g")
    page.keyboard.press(key)
    try:
        page.wait_for_url(address, timeout=5000)
    except TimeoutError:
        return False
    return True


def violations(page: Page) -> list[str]:
    """By axe-core's own rules, WCAG 2.2 AA among them. What is being loaded is faint: it is looked at when it came."""
    expect(page.locator("[data-src][data-from], .htmx-request, .loading-step")).to_have_count(0)
    found: list[dict[str, Any]] = AXE.run(page).response["violations"]
    return [f"{page.url}: {one['id']}: {one['nodes'][0]['html'][:160]}" for one in found]


CUT = """() => [...document.querySelectorAll("input[placeholder]")].filter((one) => {
    const style = getComputedStyle(one), pen = document.createElement("canvas").getContext("2d");
    pen.font = style.font;
    const cross = one.type === "search" ? parseFloat(style.fontSize) : 0;  // room for the button that empties it
    const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - cross;
    return one.offsetParent && pen.measureText(one.placeholder).width > room;
}).map((one) => `${one.name}: ${one.placeholder}`)"""


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_no_hint_in_a_field_is_cut(scene: Site, width: int) -> None:
    page = scene.page("/", viewport={"width": width, "height": 900})
    session = scene.rl.sessions.get("fix-login").id
    for path in ("/", f"/sessions/{session}", f"/checkpoints/{session}@tests-green", "/search?q=login"):
        page.goto(scene.address(path))
        assert page.evaluate(CUT) == [], path


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1024), ("light", 390)])
def test_every_page_is_accessible_in_both_themes_and_at_every_width(scene: Site, scheme: Any, width: int) -> None:
    context = scene.context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = scene.page("/", context=context)
    found: list[str] = []
    for name, path in every_page(scene).items():
        if name in LIKE_ANOTHER:
            continue
        page.goto(scene.address(path))
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (ground == "rgb(15, 18, 22)") == (scheme == "dark"), (name, ground)
        unfolded(page, "details:not(.more)")
        found += violations(page)
        if width > 390:  # another test takes those of a phone
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")
    page.goto(scene.address(every_page(scene)["checkpoint"]))
    page.locator("[data-verb=rewind]").click()
    expect(page.locator("#dialog[open]")).to_be_visible()
    found += violations(page)
    page.screenshot(path=SCREENSHOTS / f"rewind-{scheme}-{width}.png")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [380, 320])
def test_a_narrow_screen_scrolls_one_way_and_its_targets_are_large(scene: Site, width: int) -> None:
    page = scene.page("/", viewport={"width": width, "height": 800})
    for name, path in every_page(scene).items():
        page.goto(scene.address(path))
        across = page.evaluate("document.documentElement.scrollWidth")
        assert across <= width, f"{name} is {across} wide at {width}"
        small = page.locator("main button:visible, main a.button:visible, main select:visible").evaluate_all(
            "all => all.filter(e => e.getBoundingClientRect().height < 44).map(e => e.outerHTML.slice(0, 100))"
        )
        assert small == [], name
        if width == 380:
            page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png")
    assert violations(page) == []


def test_the_theme_is_chosen_and_remembered(scene: Site) -> None:
    page = scene.page("/", color_scheme="light")
    page.get_by_label("theme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(15, 18, 22)"
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(15, 18, 22)"
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.get_by_label("theme").select_option("auto")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"


def test_everything_is_reached_by_keys_alone(scene: Site) -> None:
    page = scene.page("/")
    keys = page.keyboard
    keys.press("/")
    expect(page.locator("#search")).to_be_focused()
    keys.type("fix-login")
    keys.press("Enter")
    expect(page).to_have_url(scene.address("/search?q=fix-login"))
    expect(page.locator(".found").first).to_contain_text("fix-login")
    page.goto(scene.address("/?q=fix-login"))
    expect(page.locator("tr.s")).to_have_count(2)
    keys.press("j")
    keys.press("j")
    expect(page.locator("tr.s.on")).to_have_attribute("data-ref", "fix-login")
    keys.press("Space")
    expect(page.locator(".peekbox")).to_contain_text("git push")
    keys.press("Enter")
    expect(page.locator("h1")).to_have_text("fix-login")
    ready(page)
    keys.press("n")
    expect(page.locator(".row.on")).to_have_class("row problem on")
    keys.press("4")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Files")
    ready(page)
    keys.press("2")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Conversation")
    ready(page)
    keys.press("1")
    expect(page.locator(".tabs [aria-current]")).to_have_text("History")
    ready(page)
    keys.press("b")
    expect(page.locator("#dialog[open]")).to_contain_text("Rewind fix-login")
    keys.press("Escape")
    expect(page.locator("#dialog[open]")).to_have_count(0)
    keys.press("?")
    expect(page.locator("#keys[open]")).to_be_visible()
    keys.press("Escape")
    expect(page.locator("#keys[open]")).to_have_count(0)
    for key, path in (("o", "/operations"), ("s", "/")):
        eventually(partial(goes, page, key, scene.address(path)), what=f"g {key} leading to {path}")


def test_a_dialog_holds_the_focus_and_gives_it_back(scene: Site) -> None:
    page = scene.page(every_page(scene)["checkpoint"])
    opener = page.locator("[data-verb=rewind]")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog [data-cancel]")).to_be_focused()
    for _ in range(12):
        page.keyboard.press("Tab")
        where = "[document.body, ...document.querySelectorAll('#dialog *')].includes(document.activeElement)"
        assert page.evaluate(where)
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()


def test_keys_can_be_switched_off_and_are_off_in_fields(scene: Site) -> None:
    page = scene.page("/")
    page.locator("#search").focus()
    page.keyboard.type("g")
    page.keyboard.type("o")
    expect(page.locator("#search")).to_have_value("go")
    page.locator("#search").blur()
    page.get_by_role("button", name="keys").click()
    page.get_by_label("single keys are on").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.keyboard.press("j")
    expect(page.locator("tr.s.on")).to_have_count(0)
    expect(page).to_have_url(scene.address("/"))


def test_without_scripts_every_page_reads(scene: Site) -> None:
    context = scene.context(java_script_enabled=False)
    page = context.new_page()
    expected = {
        "sessions": "nightly-docs",
        "session": "The token is refreshed twice.",
        "steps": "it was not running",
        "conversation": "Make the login test pass. Do not touch the database.",
        "calls": "send_mail",
        "files": "return renew(token)",
        "forks": "fix-login-argon2",
        "raw": '"agent": "claude"',
        "checkpoint": "NOT undone by a rewind",
        "operations": "an acknowledged step survives",
        "dialog": "relight rewind fix-login@",
        "find": "1 of ",
    }
    for name, text in expected.items():
        page.goto(scene.address(every_page(scene)[name]))
        expect(page.locator("main"), name).to_contain_text(text, use_inner_text=True)
        expect(page.locator(".js-only:visible"), name).to_have_count(0)
    page.goto(scene.address("/"))
    page.get_by_role("link", name="fix-login", exact=True).click()
    page.get_by_role("link", name="@27").click()
    page.get_by_role("link", name="Fork here…").click()
    expect(page.locator("main")).to_contain_text("relight fork")


def test_where_motion_is_not_wanted_nothing_moves(scene: Site) -> None:
    page = scene.page("/", reduced_motion="reduce")
    names = page.locator(".status .g").evaluate_all("all => all.map(e => getComputedStyle(e).animationName)")
    assert set(names) == {"none"}
