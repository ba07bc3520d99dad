"""Acting: a dialog says what will happen and does nothing by accident; what it does is what a command does."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import relight
from relight.server.pages.dialogs.session import VERBS
from tests.integration.browser.conftest import Site
from tests.support.calls import call, send_mail
from tests.support.program_harness import ProgramHarness, kill
from tests.support.sample_sessions import Scenes
from tests.support.shell import eventually, logical_dump
from tests.unit.server.conftest import fill


def contents(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def confirm(page: Page) -> Any:
    return page.locator("dialog [data-confirm]")


def editing(site: Site, work: Path) -> str:
    """A session whose files changed from step to step, then ended."""
    work.mkdir()
    (work / "a.txt").write_text("first\n")
    with site.rl.session("files", agent="mine", provider="openai", workspace=work) as s:
        s.append({"role": "user", "content": "edit"})
        s.checkpoint("before")
        (work / "a.txt").write_text("second\n")
        (work / "new.txt").write_text("new\n")
        s.append(call("c1", "send_mail", '{"to": "bob"}'))
        s.run_tool(s.pending_calls()[0], [send_mail])
        s.append({"role": "assistant", "content": "edited"})
        session = str(s.id)
        s.halt("enough")
    return session


# -- by accident: nothing ---------------------------------------------------------------------------------------------


def test_every_dialog_starts_on_cancel_and_enter_changes_nothing(site: Site, tmp_path: Path) -> None:
    fill(site.rl)
    session = editing(site, tmp_path / "work")
    page = site.page(f"/sessions/{session}")
    before = logical_dump(site.harness.store)
    waiting = site.rl.sessions.get("fix-login").id
    for verb in VERBS:
        if verb in ("restore", "label"):
            address = f"/checkpoints/{session}@before/do/{verb}"
        else:
            address = f"/sessions/{waiting if verb in ('approve', 'deny', 'send', 'settle') else session}/do/{verb}"
        page.evaluate("address => relight.openDialog(address)", address)
        expect(page.locator("dialog[open] h2")).to_be_visible()
        expect(page.locator("dialog [data-cancel]")).to_be_focused()
        expect(page.locator("dialog .cmd code"), verb).to_have_text(re.compile("^relight "))
        page.keyboard.press("Enter")
        expect(page.locator("#dialog[open]")).to_have_count(0)
    assert logical_dump(site.harness.store) == before


def test_a_rewind_has_no_default_scope(site: Site, tmp_path: Path) -> None:
    session = editing(site, tmp_path / "work")
    page = site.page(f"/checkpoints/{session}@before")
    before, files = logical_dump(site.harness.store), contents(tmp_path / "work")
    page.locator("[data-verb=rewind]").click()
    expect(confirm(page)).to_be_disabled()
    expect(page.locator("dialog input[type=radio]:checked")).to_have_count(0)
    confirm(page).click(force=True)
    page.locator("dialog [data-cancel]").click()
    assert (logical_dump(site.harness.store), contents(tmp_path / "work")) == (before, files)


def test_a_plan_that_has_moved_is_shown_again_and_nothing_is_done(site: Site, tmp_path: Path) -> None:
    session = editing(site, tmp_path / "work")
    page = site.page(f"/checkpoints/{session}@before")
    page.locator("[data-verb=rewind]").click()
    page.get_by_label("the conversation").check()
    moved = site.rl.runs.send("files", "one more thing")
    files = contents(tmp_path / "work")
    confirm(page).click()
    expect(page.locator("dialog [data-problem]")).to_contain_text("Nothing was done")
    expect(page.locator("#dialog")).to_contain_text(f"from @{moved.seq}")
    expect(page.locator("dialog input[type=radio]:checked")).to_have_count(0)
    assert site.rl.sessions.get(session).head == moved.seq and contents(tmp_path / "work") == files


def test_removing_needs_the_name_typed(site: Site) -> None:
    fill(site.rl)
    session = site.rl.sessions.get("changelog").id
    page = site.page(f"/sessions/{session}")
    page.evaluate(f"relight.openDialog('/sessions/{session}/do/remove')")
    expect(confirm(page)).to_be_disabled()
    page.locator("dialog input[data-typed]").fill("changelo")
    expect(confirm(page)).to_be_disabled()
    page.locator("dialog input[data-typed]").fill("changelog")
    expect(confirm(page)).to_be_enabled()


# -- meant ------------------------------------------------------------------------------------------------------------


def test_a_rewind_and_its_undo_by_click(site: Site, tmp_path: Path) -> None:
    session, work = editing(site, tmp_path / "work"), tmp_path / "work"
    head, files = site.rl.sessions.get(session).head, contents(work)
    page = site.page(f"/checkpoints/{session}@before")
    expect(page.locator(".sheet")).to_contain_text("send_mail (once)")
    page.locator("[data-verb=rewind]").click()
    page.get_by_label("both").check()
    expect(confirm(page)).to_have_text("Rewind both")
    expect(page.locator("dialog .cmd code")).to_have_text("relight rewind files@3 --both")
    # This page is read anew: a word said before that would take the press on its button with it.
    page.evaluate(
        "new MutationObserver(() => sessionStorage.setItem('early', '1'))"
        ".observe(document.querySelector('#toasts'), { childList: true })"
    )
    confirm(page).dblclick()
    expect(page.locator(".toast")).to_contain_text("files was rewound to @3")
    assert page.evaluate("sessionStorage.getItem('early')") is None
    assert site.rl.sessions.get(session).head == 3
    assert (work / "a.txt").read_text() == "first\n" and not (work / "new.txt").exists()
    assert len([one for one in site.rl.history.operations(session) if one.verb == "rewind"]) == 1, (
        "a double click is one act"
    )
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast", has_text="undone")).to_be_visible()
    assert site.rl.sessions.get(session).head == head and contents(work) == files


def test_files_are_previewed_and_restored_as_chosen(site: Site, tmp_path: Path) -> None:
    session, work = editing(site, tmp_path / "work"), tmp_path / "work"
    (work / "mine.txt").write_text("written by a person\n")
    page = site.page(f"/checkpoints/{session}@before")
    expect(page.locator(".files")).to_contain_text("a.txt")
    expect(page.locator(".files .diff").first).to_contain_text("+second")
    page.locator("[data-verb=restore]").click()
    boxes = page.locator("dialog [data-list]")
    expect(boxes).to_have_count(3)
    chosen = page.locator("dialog [data-list]:checked").evaluate_all("all => all.map(b => b.value.split('/').pop())")
    assert sorted(chosen) == ["a.txt", "new.txt"], "what somebody else changed is off"
    page.locator("dialog label", has_text="new.txt").locator("input").uncheck()
    confirm(page).click()
    expect(page.locator(".toast")).to_contain_text("restored")
    assert (work / "a.txt").read_text() == "first\n"
    assert (work / "new.txt").exists() and (work / "mine.txt").exists()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast", has_text="undone")).to_be_visible()
    assert (work / "a.txt").read_text() == "second\n"


def test_a_fork_from_an_old_checkpoint_leads_to_its_own_page(site: Site, tmp_path: Path) -> None:
    session = editing(site, tmp_path / "work")
    page = site.page(f"/sessions/{session}")
    page.locator(".row.labelled").get_by_role("link", name="open").click()
    page.locator("[data-verb=fork]").click()
    page.get_by_label("Name").fill("other-way")
    confirm(page).click()
    expect(page.locator("h1")).to_have_text("other-way")
    made = site.rl.sessions.get("other-way")
    assert made.parent == f"{session}@3" and made.id in page.url
    copied = Path(made.workspace["main"] if "main" in made.workspace else next(iter(made.workspace.values())))
    assert (copied / "a.txt").read_text() == "first\n" and copied != tmp_path / "work"
    page.goto(site.address(f"/sessions/{session}?tab=forks"))
    expect(page.locator(".tree")).to_contain_text("other-way")


def test_a_question_is_answered_from_the_peek(site: Site) -> None:
    fill(site.rl)
    page = site.page("/")
    page.get_by_role("button", name="peek into fix-login").click()
    box = page.locator(".peekbox")
    expect(box).to_contain_text("git push origin main")
    box.get_by_label("Answer").fill("yes")
    box.get_by_role("button", name="Answer").click()
    expect(page.locator(".toast")).to_contain_text("answered")
    assert site.rl.sessions.get("fix-login").status != "waiting"


def test_a_stuck_lease_is_cleared_with_its_evidence_and_who_did_it_is_kept(
    tmp_path: Path, over: Callable[[Path], Site]
) -> None:
    scenes = Scenes(tmp_path / "p.db", tmp_path / "src")
    scenes.refactor()  # its owner is this process, which lives, and will never renew
    scenes.close()
    site = over(tmp_path / "p.db")
    page = site.page("/operations")
    lease = page.locator("tr", has_text="refactor-db").last
    expect(lease).to_contain_text("process alive")
    lease.get_by_role("link", name="Clear…").click()
    expect(page.locator("dialog .ev")).to_contain_text("alive")
    expect(confirm(page)).to_be_disabled()
    page.get_by_label("Reason").fill("it hangs")
    page.locator("dialog input[data-typed]").fill("refactor-db")
    confirm(page).click()
    expect(page.locator(".toast")).to_contain_text("refactor-db is cleared")
    assert site.rl.sessions.get("refactor-db").status == "terminated"
    action = page.locator("section", has_text="Recent actions").locator("tr", has_text="clear")
    expect(action).to_contain_text("it hangs")
    expect(action).to_contain_text("done")


def test_a_refusal_says_why_and_leaves_the_session_as_it_was(site: Site) -> None:
    fill(site.rl)
    session = site.rl.sessions.get("nightly-docs").id
    page = site.page(f"/sessions/{session}")
    expect(page.locator("#head [aria-disabled=true]", has_text="Resume…").first).to_be_visible()
    page.locator("summary", has_text="More").click()
    expect(page.locator(".more")).to_contain_text("relight does not know how to start it")
    page.evaluate(f"relight.openDialog('/sessions/{session}/do/label')")
    page.get_by_label("Name").fill("not a name!")
    confirm(page).click()
    expect(page.locator("dialog [data-problem]")).to_contain_text("RL-1002")
    page.locator("dialog [data-cancel]").click()
    assert all(one.label is None for one in site.rl.history.checkpoints(session))


@pytest.mark.crash
def test_a_kill_is_seen_and_one_click_resumes_it(
    tmp_path_factory: pytest.TempPathFactory, over: Callable[[Path], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [{"text": "first", "calls": [{"shell": "echo one > a.txt"}]}, [{"hang": "before"}, {"text": "the end"}]]
    s = ProgramHarness(tmp_path_factory.mktemp("s").resolve(), script)
    try:
        child = s.begin()
        s.model.wait_for(2)
        for name, value in s.environment().items():
            monkeypatch.setenv(name, value)  # the server starts what it resumes with its own surroundings
        site = over(s.store)
        page = site.page(f"/sessions/{s.known().id}")
        expect(page.locator("#head .status")).to_contain_text("working")
        kill(child.pid)
        for pid in s.agents():  # it may have seen its supervisor go
            kill(pid)
        expect(page.locator("#head .status")).to_contain_text("terminated")
        page.locator("#head .button.filled", has_text="Resume…").click()
        expect(page.locator("#dialog")).to_contain_text("claude's own resume")
        confirm(page).click()
        expect(page.locator("#head .status")).to_contain_text("completed", timeout=30_000)
        expect(page.locator("#rows .rule").last).to_contain_text("attempt 2")
        expect(page.locator("#rows")).to_contain_text("the end")
        assert (s.work / "a.txt").read_text() == "one\n"
        eventually(lambda: not s.agents(), what="the agent's end")
    finally:
        s.close()


def test_looking_at_everything_changes_nothing_and_starts_nothing(tmp_path: Path, over: Callable[[Path], Site]) -> None:
    scenes = Scenes(tmp_path / "p.db", tmp_path / "src")
    scenes.fill()
    scenes.close()
    site = over(tmp_path / "p.db")
    from tests.integration.browser.conftest import every_page

    before, files = logical_dump(tmp_path / "p.db"), contents(tmp_path / "src")
    context = site.context()
    for path in every_page(site).values():
        page = site.page(path, context=context)
        page.close()
    with relight.open(tmp_path / "p.db") as rl:
        assert [info.attempt for info in rl.sessions.list()] == [info.attempt for info in site.rl.sessions.list()]
    assert (logical_dump(tmp_path / "p.db"), contents(tmp_path / "src")) == (before, files)
