"""What a page says is true after every paint: compared with the journal, not with what the server rendered first."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from relight.text.safe import one_line
from tests.integration.browser.conftest import Site
from tests.support.journals import KINDS, Player
from tests.support.shell import command, environment

WIDTHS = (1440, 1024, 390)


def told(site: Site, name: str) -> list[tuple[str, str]]:
    """What the journal says, in order, by `relight tail --json`: (said or call, the beginning of its text)."""
    done = subprocess.run(
        command("tail", name, "--json"), env=environment(site.harness.store), capture_output=True, text=True, check=True
    )
    found: list[tuple[str, str]] = []
    for line in done.stdout.splitlines():
        for message in json.loads(line)["messages"]:
            found += _claude(message) if "message" in message else _codex(message)
    return found


def _claude(line: dict[str, Any]) -> list[tuple[str, str]]:
    content = line["message"]["content"]
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [
        ("said", one_line(one["text"])[:16]) if one["type"] == "text" else ("call", _first(one["input"]))
        for one in blocks
        if one["type"] in ("text", "tool_use")
    ]


def _codex(line: dict[str, Any]) -> list[tuple[str, str]]:
    payload = line.get("payload", {})
    if payload.get("type") == "function_call":
        return [("call", _first(json.loads(payload["arguments"])))]
    if payload.get("type") == "message" and payload["role"] in ("user", "assistant"):
        return [("said", one_line(" ".join(part["text"] for part in payload["content"]))[:16])]
    return []


def _first(given: dict[str, Any]) -> str:
    return str(next(iter(given.values())))[:16]


def check(page: Page, expected: list[tuple[str, str]], where: str) -> None:
    """Each once, and in order."""
    text = " ".join((page.locator("#rows").text_content() or "").split())
    # In steps: the journal's own order, in which a hook reports a call before the transcript has the reply.
    for group in (("said",), ("call",)) if "density=steps" in page.url else (("said", "call"),):
        at = 0
        for kind, part in expected:
            assert text.count(part) == 1, f"{where}: {kind} {part!r} is there {text.count(part)} times in {text}"
            if kind in group:
                assert text.index(part) >= at, f"{where}: {kind} {part!r} is out of order in {text}"
                at = text.index(part)
    ids = page.locator("#rows [id]").evaluate_all("all => all.map(one => one.id)")
    assert len(set(ids)) == len(ids), f"{where}: {sorted(ids)}"


def marks(page: Page) -> list[str]:
    """How each call stands, in order."""
    found = page.locator("#rows .calls > li").evaluate_all("all => all.map(one => one.textContent.trim()[0])")
    return list(found)


@pytest.mark.parametrize("density", ["turns", "steps"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_session_shows_its_journal_once_and_in_order_after_any_number_of_paints(
    site: Site, kind: str, density: str
) -> None:
    session = Player(site.rl, kind, "job").play().session
    expected = told(site, "job")
    assert len(expected) >= 10
    for width in WIDTHS:
        page = site.page(f"/sessions/{session}?density={density}", viewport={"width": width, "height": 844})
        check(page, expected, f"{width} before a paint")
        for paints in (1, 99 if width == WIDTHS[0] else 4):
            page.evaluate("async n => { while (n--) await relight.read(); }", paints)
            check(page, expected, f"{width} after {paints} paints")
        if density == "turns":
            assert marks(page) == ["✓", "✓", "✗", "✓", "✓"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_session_shows_its_journal_once_and_in_order_at_every_step(site: Site, kind: str) -> None:
    player = Player(site.rl, kind, "job").play(3)
    page = site.page(f"/sessions/{player.session}", viewport={"width": 1440, "height": 844})
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    while player.left:
        player.step()
        page.evaluate("relight.read()")
        check(page, told(site, "job") if player.left % 5 == 0 else [], f"{player.left} steps before the end")
    fresh = site.page(f"/sessions/{player.session}", viewport={"width": 1440, "height": 844})
    page.evaluate("relight.read()")
    shown = "one => [...one.children].map(row => row.id + row.querySelector('.tx, span').textContent)"
    assert page.locator("#rows").evaluate(shown) == fresh.locator("#rows").evaluate(shown)
    check(page, told(site, "job"), "the end")
