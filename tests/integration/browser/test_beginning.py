"""Begin, edit, download and watch from the browser; views are kept by name in the browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from relight.values.options import RunOptions
from tests.integration.browser.conftest import Site
from tests.integration.browser.test_access import violations
from tests.integration.browser.test_acting import confirm


def test_a_message_is_edited_in_a_fork_and_a_session_is_downloaded(site: Site) -> None:
    with site.rl.session("letter") as s:
        s.append({"role": "user", "content": "write to ada"})
        s.complete("done")
    page = site.page(f"/checkpoints/{s.id}@2")
    page.locator("[data-verb=edit]").click()
    field = page.get_by_label("The last message at this checkpoint")
    expect(field).to_have_value("write to ada")
    field.fill("write to bob")
    page.get_by_label("Name (optional)").fill("other")
    assert violations(page) == []
    confirm(page).click()
    expect(page.locator("h1")).to_have_text("other")
    expect(page).to_have_url(site.address(f"/sessions/{site.rl.sessions.get('other').id}"))
    assert site.rl.history.load("other").messages == [{"role": "user", "content": "write to bob"}]
    page.goto(site.address(f"/sessions/{s.id}/do/export"))
    with page.expect_download() as got:
        page.get_by_role("link", name="Download").click()
    assert got.value.suggested_filename == "letter.relight"


def test_output_is_live_and_views_are_kept_by_name(site: Site, tmp_path: Path) -> None:
    made = site.rl.runs.create(["true"], RunOptions(directory=str(tmp_path), agent="command", name="prints"))
    directory = site.rl.runs.directory("prints")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "output.log").write_text("first line\n")
    context = site.context(viewport={"width": 390, "height": 800})
    page = site.page(f"/sessions/{made.id}/output", context=context)
    expect(page.locator("#output")).to_contain_text("first line")
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= 390
    (directory / "output.log").write_text("first line\nsecond line\n")
    expect(page.locator("#output")).to_contain_text("second line", timeout=20_000)
    page.goto(site.address("/?status=queued"))
    page.locator("#views summary").click()
    page.get_by_label("Keep these filters as").fill("in line")
    page.get_by_role("button", name="Keep").click()
    page.goto(site.address("/"))
    page.locator("#views summary").click()
    page.get_by_role("link", name="in line", exact=True).click()
    expect(page).to_have_url(site.address("/?status=queued"))
    page.get_by_role("link", name="New session…").click()
    expect(page.locator("#dialog .three dt")).to_have_text(["Happens", "Stays", "Way back"])
    assert violations(page) == []


@pytest.mark.parametrize("address", ["/", "/?q=first"])
def test_the_first_row_of_an_empty_list_comes_without_losing_what_is_being_done(site: Site, address: str) -> None:
    if address != "/":
        site.rl.session("other").close()
    page = site.page(address)
    page.get_by_role("link", name="New session…").click()
    prompt = page.get_by_label("Prompt")
    prompt.fill("write the tests")
    site.rl.session("first").close()
    expect(page.locator("tr.s")).to_have_attribute("data-ref", "first")
    expect(prompt).to_have_value("write the tests")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Status").locator("option").nth(1)).to_have_text(re.compile("^terminated"))
    page.get_by_label("choose first").check()
    expect(page.locator("#picked [data-number]")).to_have_text("1 chosen")
    page.get_by_label("Status").select_option("terminated")
    expect(page).to_have_url(re.compile("status=terminated"))
