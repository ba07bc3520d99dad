"""Every message, call and result of a journal is in one window of it, however far a result is from its call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from relight.server.pages import history
from relight.server.pages.timeline import far_steps
from tests.support.server_harness import ServerHarness

FAR = (41, 205, 290)
"""steps from a call to its result"""
CALLED = (3, 150, 170)
LONG = 80
"""steps of one reply that goes on and on"""


def use(call: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"make {call}"}}
    return {"role": "assistant", "content": [block]}


def got(call: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": f"<output of {call}>"}
    return {"role": "user", "content": [block]}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerHarness, str, int]]:
    """Calls with their results far away, most of which are told as not run before; and one long reply."""
    harness, patch = ServerHarness(tmp_path_factory.mktemp("far") / "p.db"), pytest.MonkeyPatch()
    patch.setattr(far_steps, "_BLOCK", 60)
    due: dict[int, list[str]] = {}
    with harness.rl.session("job", provider="anthropic") as s:
        for n in range(480):
            for call in due.pop(n, ()):
                s.append(got(call))
            if n in CALLED:
                for far in FAR:
                    s.append(use(f"c{n}x{far}"))
                    due.setdefault(n + far, []).append(f"c{n}x{far}")
            if n == 100:
                s.append(use("never"))
            role = "assistant" if 230 < n <= 230 + LONG else "user"
            s.append({"role": role, "content": f"<message {n}>"})
        s.complete("over")
        session = str(s.id)
    yield harness, session, harness.rl.sessions.get(session).seq
    patch.undo()
    harness.close()


def test_every_message_call_and_result_is_in_one_window_of_the_conversation(
    journal: tuple[ServerHarness, str, int],
) -> None:
    harness, session, newest = journal
    client = harness.client("read")
    client.headers["accept"] = "text/html"
    for shift in (0, 77):  # while a session grows the edges are others
        asked_for = [f"/sessions/{session}?tab=conversation&upto={n}" for n in range(newest - shift, 0, -history.STEPS)]
        pages = [client.get(one).text.partition('id="tab"')[2] for one in reversed(asked_for)]
        said = [one for page in pages for one in re.findall(r"&lt;message (\d+)&gt;", page)]
        assert said == sorted(set(said), key=int) and len(said) >= 400
        results = Counter(one for page in pages for one in re.findall(r"&lt;output of (\w+)&gt;", page))
        asked = Counter(one for page in pages for one in re.findall(r'class="command".*?make (c\w+)', page))
        assert len(results) == len(CALLED) * len(FAR) and set(results.values()) == {1}, results
        assert set(asked.values()) == {1} and len(asked) == len(CALLED) * len(FAR), asked
        for page in pages:  # each under its call
            for call in re.findall(r"&lt;output of (\w+)&gt;", page):
                assert page.index(call) < page.index(f"&lt;output of {call}&gt;")
        notes = [one for page in pages for one in re.findall(r"the result of Bash make (\w+) came here", page)]
        assert len(notes) == len(set(notes)) > 0


def test_a_step_is_read_with_its_call_however_far_that_is(journal: tuple[ServerHarness, str, int]) -> None:
    harness, session, _ = journal
    client = harness.client("read")
    client.headers |= {"accept": "text/html", "x-relight-part": "1"}
    result = "<output of c170x290>"
    (seq,) = (one.seq for one in harness.rl.history.events(session) if result in str(one.messages))
    text = client.get(f"/sessions/{session}/step?seq={seq}").text
    assert "&lt;output of c170x290&gt;" in text and "result of an earlier call" not in text and "Bash" in text


@pytest.mark.parametrize("density", ["turns", "steps"])
def test_no_row_of_the_history_is_told_twice_or_without_its_end(
    journal: tuple[ServerHarness, str, int], density: history.Density
) -> None:
    harness, session, newest = journal
    info = harness.rl.sessions.get(session)
    edges = [0, *range(130, newest, history.STEPS), newest]
    ended, idle = Counter[str](), list[str]()
    for after, upto in pairwise(edges):
        window = history.Window(after=after, upto=upto, newest=newest)
        rows = history.window_rows(harness.rl, info, window, density=density, kind="all").rows
        assert len({row.id for row in rows}) == len(rows)
        tools = [one for row in rows for one in (row, *row.calls) if one.word == "tool" and row.seq > after]
        ended.update(one.text for one in tools if one.mark == "✓")
        assert not [one for one in tools if one.text.startswith("an earlier")], tools
        idle += [one.text for one in tools if one.text.endswith("(not begun)")]
    assert len(ended) == len(CALLED) * len(FAR) and set(ended.values()) == {1}, ended
    assert not idle
