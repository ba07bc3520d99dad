"""Recorded sessions of Claude Code and Codex, as a reader sees them: everything once, each result under its call."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from relight.journal.formats.registry import detect
from relight.server.pages.conversation import Part, conversation
from relight.server.pages.step import step_view
from relight.values.view import Call, Result, Text
from tests.support.journals import KINDS, Player
from tests.support.server_harness import ServerHarness


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_was_said_is_there_once_and_each_result_is_under_its_call(
    harness: ServerHarness, kind: str
) -> None:
    player = Player(harness.rl, kind, "real")
    while player.left:
        player.step()
    info = harness.rl.sessions.get("real")
    events = list(harness.rl.history.events(info.id))
    blocks = [
        block
        for event in events
        if event.messages and event.kind != "reset"
        for message in detect(event.messages, info.provider).read(event.messages)
        for block in message.blocks
    ]
    entries = conversation(events, info.provider, None)
    parts: list[Part] = [part for entry in entries for part in entry.parts]
    said = Counter(block.text for block in blocks if isinstance(block, Text))
    assert Counter(part.text for part in parts if part.kind == "text") == said
    calls = [block for block in blocks if isinstance(block, Call)]
    shown = [part for part in parts if part.kind == "call"]
    assert calls and [part.title for part in shown].count(calls[0].name) >= 1
    assert len(shown) == len(calls)
    answered = {block.call for block in blocks if isinstance(block, Result)}
    answered |= {outcome["id"] for event in events for outcome in event.outcomes}
    assert sum(bool(part.results) for part in shown) == len(answered & {call.id for call in calls})
    assert all(len(part.results) == 1 for part in shown if part.results)
    client, pages = harness.client("read"), f"/sessions/{info.id}"
    text = client.get(f"{pages}?tab=conversation", headers={"accept": "text/html"}).text
    assert not re.search(r"result of (toolu|call)_", text) and "result of an earlier call" not in text
    for event in events:
        view = step_view(events, event.seq, info.provider)
        assert view is not None and (view.parts or view.title)
        assert bool(event.intents or event.outcomes) <= any(part.kind == "call" for part in view.parts), event.seq
