"""What a person says arrives where it is read: a call in doubt is settled, an interrupt is left to its program, a lost
answer is asked for again under the same key, and what is said afterwards is what happened."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

import relight
from relight.errors import Waiting
from relight.journal.effects.approvals import question_of
from tests.integration.browser.conftest import Site
from tests.integration.browser.test_access import violations
from tests.integration.browser.test_acting import confirm, contents, editing
from tests.support.calls import call
from tests.support.waiting_sessions import in_doubt, interrupted
from tests.unit.server.conftest import fill
from tests.unit.server.test_after_answer import asking


def painted(page: Page) -> None:
    """After the first live paint: what a person sees a second later."""
    expect(page.locator("#live")).to_contain_text("live")
    page.evaluate("relight.read()")


def test_a_call_in_doubt_is_settled_or_run_again_and_never_written_to(site: Site) -> None:
    """W-A2."""
    session = in_doubt(site.rl)
    page = site.page(f"/sessions/{session}")
    painted(page)
    expect(page.locator("[data-verb=send]")).to_have_count(0)
    expect(page.locator("#rows .rt a[data-dialog]")).to_have_attribute("href", f"/sessions/{session}/do/settle")
    page.locator("[data-verb=settle]").click()
    expect(page.locator("dialog .exact")).to_contain_text('"to": "ada"')
    expect(page.locator("dialog .cmd code")).to_have_text("relight settle in-doubt c1")
    expect(confirm(page)).to_be_disabled()
    page.get_by_label("run it again").check()
    expect(page.get_by_label("Its result")).to_be_hidden()
    page.get_by_label("run it again").uncheck()
    page.get_by_label("Its result").fill("it went out")
    confirm(page).click()
    expect(page.locator(".toast")).to_contain_text("settled in in-doubt")
    loaded = site.rl.history.load(session)
    assert [one.result for one in loaded.calls] == ["it went out"] and len(loaded.messages) >= 2
    assert site.rl.sessions.get(session).attention is None


def test_an_interrupt_of_a_graph_is_not_answered_where_nobody_reads_it(site: Site) -> None:
    """W-A3."""
    session = interrupted(site.rl)
    before = site.rl.sessions.get(session).seq
    page = site.page(f"/sessions/{session}")
    painted(page)
    expect(page.locator("a[data-verb=send]")).to_have_count(0)
    expect(page.locator("#head")).to_contain_text("Command(resume=...)")
    page.goto(site.address(f"/sessions/{session}/do/send"))
    expect(page.locator("#dialog")).to_contain_text("Command(resume=...)")
    expect(confirm(page)).to_be_disabled()
    refused = site.harness.client().post(f"/api/sessions/{session}/send", json={"text": "no"})
    assert refused.status_code == 409 and "Command(resume=...)" in str(refused.json()["hints"])
    assert site.rl.sessions.get(session).seq == before and site.rl.sessions.get(session).status == "waiting"


def test_after_a_lost_answer_the_same_press_is_done_once(site: Site) -> None:
    """W-A4."""
    fill(site.rl)
    session = site.rl.sessions.get("changelog").id
    page = site.page(f"/sessions/{session}")
    lost: list[str] = []

    def lose(route: Any) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.request.headers["idempotency-key"])
        there = http.client.HTTPConnection("127.0.0.1", site.port)  # what the server answers reaches nobody
        headers = {**route.request.all_headers(), "Host": f"{site.harness.guard.own_name}:{site.port}"}
        there.request("POST", urlsplit(route.request.url).path, body=route.request.post_data, headers=headers)
        assert there.getresponse().status == 201
        there.close()
        route.abort()

    page.route("**/fork", lambda route: lose(route) if route.request.method == "POST" else route.continue_())
    page.evaluate(f"relight.openDialog('/sessions/{session}/do/fork')")
    confirm(page).click()
    problem = page.locator("dialog [data-problem]")
    expect(problem).to_contain_text("it is not known whether it was done")
    expect(problem).not_to_contain_text("undefined")
    confirm(page).click()
    expect(page).not_to_have_url(site.address(f"/sessions/{session}"))
    forks = [info for info in site.rl.sessions.list() if info.parent]
    assert len(forks) == 1 and forks[0].id in page.url


def test_a_rewind_names_what_somebody_changed_and_asks_who_wins(site: Site, tmp_path: Path) -> None:
    """W-A6."""
    session, work = editing(site, tmp_path / "work"), tmp_path / "work"
    (work / "a.txt").write_text("by a person\n")
    page = site.page(f"/checkpoints/{session}@before")
    page.locator("[data-verb=rewind]").click()
    page.get_by_label("the conversation").check()
    expect(page.get_by_label("a.txt")).to_be_hidden()
    page.get_by_label("both").check()
    expect(page.locator("dialog [name=take]")).to_have_count(1)
    page.get_by_label("a.txt").check()
    expect(page.locator("dialog .cmd code")).to_have_text(
        f"relight rewind files@3 --both --theirs --take {work / 'a.txt'}"
    )
    page.get_by_label("a.txt").uncheck()
    expect(page.locator("dialog .cmd code")).to_have_text("relight rewind files@3 --both --theirs")
    confirm(page).click()
    expect(page.locator(".toast")).to_contain_text("files was rewound to @3")
    assert (work / "a.txt").read_text() == "by a person\n" and not (work / "new.txt").exists()
    assert site.rl.sessions.get(session).head == 3
    assert contents(work).keys() == {"a.txt"}


def test_an_answer_starts_the_session_in_one_click_and_is_told_so(site: Site, tmp_path: Path) -> None:
    session = asking(site.rl, tmp_path, "backups")
    before = site.rl.sessions.get(session).attempt
    page = site.page(f"/sessions/{session}")
    expect(page.locator("#rows .rt a[data-dialog]")).to_have_count(1)
    page.locator("[data-verb=send]").first.click()
    three = page.locator("dialog .three")
    expect(three.locator("dt")).to_have_text(["Happens", "Stays", "Way back"])
    page.get_by_role("textbox", name="Answer").fill("no")
    expect(confirm(page)).to_have_text("Answer and continue")
    expect(page.locator("dialog .cmd code")).to_have_text(
        "relight send backups TEXT && relight resume backups --detach"
    )
    page.get_by_label("and start backups again").uncheck()
    expect(confirm(page)).to_have_text("Answer")
    expect(page.locator("dialog .cmd code")).to_have_text("relight send backups TEXT")
    page.get_by_label("and start backups again").check()
    assert violations(page) == []
    confirm(page).click()
    expect(page.locator(".toast")).to_contain_text("answered backups; it ", timeout=30_000)
    expect(page.locator("#rows .rt a[data-dialog]")).to_have_count(0)  # in the page that stayed open
    assert site.rl.sessions.get(session).attempt == before + 1


def test_what_was_typed_and_unticked_stays_so_where_the_plan_is_shown_again(site: Site, tmp_path: Path) -> None:
    session = asking(site.rl, tmp_path, "backups")
    attempt = site.rl.sessions.get(session).attempt
    page = site.page(f"/sessions/{session}")
    page.locator("[data-verb=send]").first.click()
    page.get_by_role("textbox", name="Answer").fill("no")
    page.get_by_label("and start backups again").uncheck()
    site.rl.runs.send("backups", "yes")
    with pytest.raises(Waiting), site.rl.session("backups") as s:
        assert s.ask("delete them?") == "yes"
        s.ask("really?")
    confirm(page).click()
    expect(page.locator("dialog .exact")).to_have_text("really?")
    expect(page.locator("dialog [data-problem]")).to_contain_text("Nothing was done")
    expect(page.get_by_role("textbox", name="Answer")).to_have_value("no")
    expect(page.get_by_label("and start backups again")).not_to_be_checked()
    expect(confirm(page)).to_have_text("Answer")
    confirm(page).click()
    expect(page.locator(".toast")).to_contain_text("answered backups")
    assert site.rl.sessions.get(session).attempt == attempt + 1, "of the program alone: the page started nothing"


def test_who_approves_sees_the_whole_input_the_directory_and_the_reason(site: Site, tmp_path: Path) -> None:
    secret_line = "x" * 9000 + " && rm -rf build"
    message = call("c1", "Bash", json.dumps({"command": secret_line})) | {"content": "I clean the build directory."}
    with pytest.raises(relight.Waiting), site.rl.session("careful", workspace=str(tmp_path)) as s:
        s.append({"role": "user", "content": "clean up"})
        s.append(message)
        s.ask(question_of("c1", "Bash", {"command": secret_line}))
    page = site.page(f"/sessions/{s.id}/do/approve")
    shown = page.locator("dialog .exact pre")
    expect(shown).to_contain_text("&& rm -rf build")
    expect(page.locator("dialog .plan")).to_contain_text("I clean the build directory.")
    expect(page.locator("dialog .plan")).to_contain_text("directory")


def test_what_waits_for_a_decision_is_told_in_words_wherever_it_is_listed(site: Site) -> None:
    with pytest.raises(relight.Waiting), site.rl.session("bank") as s:
        s.ask(question_of("c1", "pay", {"amount": 1200, "to": "ACME GmbH"}))
    words = 'approve pay: amount 1200, to "ACME GmbH"'
    for path, part in (("/", "tr.s"), ("/", "#strip"), ("/operations", "#main"), (f"/sessions/{s.id}", "#head")):
        expect(site.page(path).locator(part), path).to_contain_text(words)
    expect(site.page(f"/sessions/{s.id}").locator("#rows")).to_contain_text(words)


def test_the_word_after_a_resume_is_what_happened(site: Site) -> None:
    """W-A8: in line is not running."""
    fill(site.rl)
    session = site.rl.sessions.get("port-to-uv").id
    page = site.page(f"/sessions/{session}")
    waits = {"status": "queued", "reason": "usage limit", "wake_at": "2030-01-01T23:01:00Z"}
    document = {"session": {"id": session, **waits}}
    said = page.evaluate(
        """async (document_) => {
             const form = document.createElement("form");
             Object.assign(form.dataset, { path: "/api/sessions/x/resume", done: "cc-slow runs" });
             return relight.begun(form, document_);
           }""",
        document,
    )
    assert "does not run yet" in said and "is queued until" in said and "usage limit" in said
