"""Two forks side by side and the page of costs: by keyboard, on a phone, live, and without a violation of axe."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.integration.browser.conftest import SCREENSHOTS, Site
from tests.integration.browser.test_access import violations

WIDTHS = (1440, 390)


def test_two_forks_are_chosen_in_the_graph_and_read_side_by_side(scene: Site) -> None:
    origin, fork = (scene.rl.sessions.get(name).id for name in ("fix-login", "fix-login-argon2"))
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width, scheme in zip(WIDTHS, ("light", "dark"), strict=True):
        context = scene.context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = scene.page(f"/sessions/{origin}?tab=forks", context=context)
        page.get_by_role("link", name="Compare…").focus()
        page.keyboard.press("Enter")
        expect(page.locator("svg.forks a")).not_to_have_count(0)
        page.get_by_role("link", name="right fix-login-argon2").or_(page.locator("b", has_text="right")).first.click()
        expect(page.get_by_role("heading", name="Conversation")).to_be_visible()
        page.goto(scene.address(f"/compare?a={origin}&b={fork}"))
        expect(page.locator(".pair")).not_to_have_count(0)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=SCREENSHOTS / f"compare-{width}.png", full_page=True)
        page.close()


def test_what_is_spent_appears_on_the_page_of_costs_by_itself(site: Site) -> None:
    with site.rl.session("first", model="gpt-5") as s:
        s.append({"role": "assistant", "content": "hello"}, usage={"input_tokens": 9, "output_tokens": 1, "cost": 1.5})
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for width, scheme in zip(WIDTHS, ("dark", "light"), strict=True):
            page = site.page("/costs", viewport={"width": width, "height": 900}, color_scheme=scheme)
            expect(page.locator("#costs .state")).to_contain_text("$1.50")
            assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
            page.screenshot(path=SCREENSHOTS / f"costs-{width}.png", full_page=True)
        s.append({"role": "assistant", "content": "more"}, usage={"input_tokens": 9, "output_tokens": 1, "cost": 0.5})
        expect(page.locator("#costs .state")).to_contain_text("$2.00", timeout=20_000)
