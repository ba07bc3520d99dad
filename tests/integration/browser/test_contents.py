"""What real sessions said, asked for and got is on their pages, whole, once and in order: compared with the journal."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.integration.browser.conftest import Site
from tests.integration.browser.test_true import WIDTHS
from tests.support.journals import KINDS, Player
from tests.support.shell import command, environment
from tests.support.transcripts import Line, claude_conversation, codex_conversation

LEAST = 5
"""letters: a shorter text may be a part of a word of the page"""


class Item(msgspec.Struct, frozen=True):
    """One thing that the journal has: something said or thought, a call, or a result."""

    seq: int
    text: str
    call: str = ""
    result: bool = False


def letters(text: str) -> str:
    """Without what markdown, differences and lines add or take away: a block's language is its colours."""
    return re.sub(r"[\W_]+", "", re.sub(r"```\w*", "", text))


def journal(site: Site, name: str) -> list[Item]:
    """Everything in it, in order, by `relight tail --json`."""
    done = subprocess.run(
        command("tail", name, "--json"), env=environment(site.harness.store), capture_output=True, text=True, check=True
    )
    found: list[Item] = []
    for line in map(json.loads, done.stdout.splitlines()):
        for message in line["messages"]:
            found += _claude(line["seq"], message) if "message" in message else _codex(line["seq"], message)
        for one in line["outcomes"]:  # reported by a hook: the transcript has it too, in what form the model sees
            found.append(Item(seq=line["seq"], text="", call=one["id"], result=True))
    return found


def _claude(seq: int, line: Line) -> list[Item]:
    content: Any = line["message"]["content"]
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found: list[Item] = []
    for one in blocks:
        if one["type"] == "tool_use":
            found.append(Item(seq=seq, text=_values(one["input"]), call=one["id"]))
        elif one["type"] == "tool_result":
            found.append(Item(seq=seq, text=one["content"], call=one["tool_use_id"], result=True))
        else:
            found.append(Item(seq=seq, text=one[one["type"]]))
    return found


def _codex(seq: int, line: Line) -> list[Item]:
    payload = line.get("payload", {})
    kind = payload.get("type") if line["type"] == "response_item" else ""
    if kind == "function_call":
        return [Item(seq=seq, text=_values(json.loads(payload["arguments"])), call=payload["call_id"])]
    if kind == "function_call_output":
        return [Item(seq=seq, text=payload["output"], call=payload["call_id"], result=True)]
    parts = payload["content"] if kind == "message" else payload["summary"] if kind == "reasoning" else []
    return [Item(seq=seq, text=part["text"]) for part in parts]


def _values(given: dict[str, Any]) -> str:
    """The text of a call that has one of any length; its other arguments are in it or beside it."""
    return max((str(one) for one in given.values()), key=len)


def compared(page: Page, items: list[Item], where: str) -> None:
    """Each of them as often as the journal has it; and in its order, a result after its call."""
    text = letters("\n".join(page.locator(".said .part").evaluate_all("all => all.map(one => one.textContent)")))
    said = [one for one in items if letters(one.text) and not one.result]
    results = {one.call: one for one in items if one.result and one.text}
    ordered = [each for one in said for each in (one, *([results[one.call]] if one.call in results else []))]
    assert len(ordered) == len(said) + len(results), f"{where}: a result without its call"
    at = 0
    for one in ordered:
        part = letters(one.text)
        at = text.find(part, at)
        assert at >= 0, f"{where}: {one} is missing or out of order in {text}"
        times = sum(letters(other.text).count(part) for other in ordered)
        assert len(part) < LEAST or text.count(part) == times, f"{where}: {one} is there {text.count(part)} times"


def conversation(site: Site, session: str, width: int) -> Page:
    return site.page(f"/sessions/{session}?tab=conversation", viewport={"width": width, "height": 844})


def written(site: Site, lines: list[Line], name: str, *, provider: str) -> str:
    """A session of these lines, a step each."""
    with site.rl.session(name, agent="mine", provider=provider) as s:
        for line in lines:
            s.append(line)
        s.complete("over")
        return str(s.id)


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_has_everything_once_and_in_order_at_every_width_and_after_every_paint(
    site: Site, kind: str
) -> None:
    player = Player(site.rl, kind, "job").play(6)
    page = conversation(site, player.session, WIDTHS[0])
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    compared(page, journal(site, "job"), "before a paint")
    player.play()
    items = journal(site, "job")
    assert len([one for one in items if one.text]) >= 15
    expect(page.locator("#tab")).to_contain_text("All done: 48 passed.")
    compared(page, items, "after a paint")
    page.evaluate("async n => { while (n--) await relight.read(); }", 100)
    compared(page, items, "after 100 paints")
    for width in WIDTHS[1:]:
        compared(conversation(site, player.session, width), items, f"{width} px")


def test_calls_at_once_whose_results_come_in_another_order_keep_theirs(site: Site) -> None:
    for name, lines, provider in (
        ("claude", claude_conversation(), "anthropic"),
        ("codex", codex_conversation(), "openai"),
    ):
        page = conversation(site, written(site, lines, name, provider=provider), WIDTHS[0])
        items = journal(site, name)
        assert len([one for one in items if one.result]) == 2
        compared(page, items, name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_read_whole_beside_the_history_and_nothing_of_it_twice(site: Site, kind: str) -> None:
    session = Player(site.rl, kind, "job").play().session
    items = journal(site, "job")
    results = {one.call: one for one in items if one.result and one.text}
    page = site.page(f"/sessions/{session}?at=@1", viewport={"width": 1440, "height": 844})
    for seq in range(1, site.rl.sessions.get("job").seq + 1):
        expect(page.locator("#step h2")).to_contain_text(f"@{seq} ")
        text = letters(page.locator("#step").text_content() or "")
        for one in (item for item in items if item.seq == seq):
            part = letters((results[one.call] if one.result else one).text)
            most = sum(letters(other.text).count(part) for other in items)
            assert 1 <= text.count(part) <= most, f"@{seq}: {one} is there {text.count(part)} times in {text}"
        if page.locator("#step [rel=next]").count():
            page.locator("#step [rel=next]").click()
    expect(page.locator("#step [rel=next]")).to_have_count(0)


def test_a_result_far_from_its_call_is_on_one_page_and_under_its_call_after_every_paint(site: Site) -> None:
    """Over the edges of the windows, from the end to the beginning and back, and while the session grows."""
    with site.rl.session("far", agent="mine", provider="anthropic") as s:
        for number in range(230):
            s.append({"role": "user", "content": f"<said {number}>"})
            if number == 20:
                use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make far"}}
                s.append({"role": "assistant", "content": [use]})
        page = conversation(site, s.id, WIDTHS[0])
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        output = [{"type": "tool_result", "tool_use_id": "t1", "content": "<far output>"}]
        s.append({"role": "user", "content": output})
        s.append({"role": "user", "content": "<said 230>"})
        expect(page.locator("#tab")).to_contain_text("<said 230>")
        expect(page.locator(".cutmark")).to_contain_text("the result of Bash make far came here")
        expect(page.locator("#tab", has_text="<far output>")).to_have_count(0)
        said = page.locator(".said .md").all_text_contents()
        page.locator("#tab a", has_text="earlier").click()
        expect(page.locator(".call .result")).to_have_text(re.compile("<far output>"))
        said = [*page.locator(".said .md").all_text_contents(), *said]
        assert [one.strip() for one in said] == [f"<said {number}>" for number in range(231)]
        page.locator("#tab a", has_text="later").click()
        expect(page.locator(".cutmark")).to_have_count(1)
        rows = site.page(f"/sessions/{s.id}", viewport={"width": WIDTHS[0], "height": 844})
        far = rows.locator("#rows > .row", has_text="make far")
        expect(far).to_have_count(1)  # the row of the call goes on here
        rows.locator("[data-more='earlier']").click()
        expect(rows.locator("#rows")).to_contain_text("said 3")
        expect(far).to_have_count(1)
        expect(far).not_to_contain_text("not begun")
