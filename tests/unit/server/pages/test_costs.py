"""Costs and comparisons: every step is counted once, what is estimated or unknown is said, two forks are aligned."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

import relight
from relight.server.pages.compare import Said, aligned
from relight.server.usage_totals import ToolTotals
from tests.support.calls import call
from tests.support.journals import KINDS, Player
from tests.support.server_harness import ServerHarness
from tests.support.shell import Shell
from tests.support.waiting_sessions import in_doubt


@relight.tool(effect="pure")
def lookup(word: str) -> str:
    if word == "bad":
        raise ValueError("no such word")
    return word


def worked(rl: Any, name: str, *, labels: dict[str, str] | None = None, words: tuple[str, ...] = ("a",)) -> str:
    with rl.session(name, model="gpt-5", labels=labels or {}) as s:
        s.append({"role": "user", "content": "look"})
        for number, word in enumerate(words):
            asked = call(f"c{number}", "lookup", f'{{"word": "{word}"}}')
            s.append(asked, usage={"input_tokens": 100, "output_tokens": 10, "cost": 0.5})
            s.run_tool(s.pending_calls()[0], [lookup])
        s.append({"role": "assistant", "content": "done"}, usage={"input_tokens": 10, "output_tokens": 1})
    return str(s.id)


def test_each_step_is_counted_once_and_only_new_ones_are_read(harness: ServerHarness) -> None:
    worked(harness.rl, "one", labels={"team": "red"}, words=("a", "bad"))
    client = harness.client("read")
    first = client.get("/api/costs").json()
    assert first["total"]["cost"] == 1.0 and first["total"]["unpriced"] == 1 and first["steps_left"] == 0
    assert first["by_label"][0] == {"name": "team=red", "cost": 1.0, "tokens": 231, "replies": 3, "unpriced": 1}
    assert first["by_model"][0]["name"] == "gpt-5" and len(first["by_day"]) == 1
    tool = first["tools"][0]
    assert (tool["name"], tool["calls"], tool["errors"], tool["cost"]) == ("lookup", 2, 1, 1.0)
    assert tool["p50"] is not None and tool["error_rate"] == 0.5
    read = harness.service.usage_totals.steps_read
    assert client.get("/api/costs").json() == first and harness.service.usage_totals.steps_read == read
    harness.rl.history.fork("one", name="other")
    with harness.rl.session("other") as s:
        s.append({"role": "assistant", "content": "more"}, usage={"cost": 0.25, "input_tokens": 1, "output_tokens": 1})
    again = client.get("/api/costs").json()
    assert again["total"]["cost"] == 1.25, "a fork does not count its ancestor's steps again"
    assert harness.service.usage_totals.steps_read - read < 6


def test_calls_count_wherever_their_result_is_and_those_in_doubt_are_told(harness: ServerHarness) -> None:
    for kind in KINDS:
        Player(harness.rl, kind, kind).play()
    in_doubt(harness.rl)
    tools = {one["name"]: one for one in harness.client("read").get("/api/costs").json()["tools"]}
    told = {name: (one["calls"], one["errors"], one["unknown"]) for name, one in tools.items()}
    assert told == {"exec_command": (5, 1, 0), "Bash": (4, 1, 0), "Write": (1, 0, 0), "send_mail": (0, 0, 1)}
    assert tools["exec_command"]["p50"] is not None


def test_the_totals_of_a_bounded_time_say_what_is_left(harness: ServerHarness) -> None:
    worked(harness.rl, "one")
    info = harness.rl.sessions.get("one")
    totals = harness.service.usage_totals.of(info.updated_at, days=1, seconds=-1)
    assert totals.steps_left == info.seq and totals.whole.cost == 0
    assert harness.service.usage_totals.of(info.updated_at + timedelta(days=9), days=1, seconds=1).sessions == 0


def test_a_percentile_is_at_most_a_bucket_too_high() -> None:
    tool = ToolTotals(durations={})
    for number in range(1, 101):
        tool.ended("ok", number / 10)
    p50, p95 = tool.percentile(0.5), tool.percentile(0.95)
    assert p50 is not None and 5.0 <= p50 <= 5.0 * 1.16
    assert p95 is not None and 9.5 <= p95 <= 9.5 * 1.16


def test_the_page_says_what_is_estimated_and_which_line_nobody_serves(harness: ServerHarness) -> None:
    worked(harness.rl, "one")
    harness.rl.queues.submit(["true"], queue="nightly", name="q", directory="/")
    with harness.client("read") as client:
        client.headers["accept"] = "text/html"
        text = client.get("/costs?days=7").text
        assert "no worker serves it" in text and "estimate" in text and "lookup" in text and "1 reply has" in text
        assert (
            'id="costs"' in client.get("/costs?days=7&part=1").text and client.get("/costs?days=x").status_code == 200
        )


def test_equal_messages_stand_in_one_row_whatever_is_between() -> None:
    def said(*texts: str) -> list[Said]:
        return [Said(role="user", text=one) for one in texts]

    rows = aligned(said("a", "x", "c"), said("a", "c", "d"))
    shown = [(one.a.text if one.a else None, one.b.text if one.b else None, one.same) for one in rows]
    assert shown == [("a", "a", True), ("x", None, False), ("c", "c", True), (None, "d", False)]


def test_two_forks_are_compared_where_they_part(scene: ServerHarness, look: TestClient) -> None:
    fork, origin = (scene.rl.sessions.get(name) for name in ("fix-login-argon2", "fix-login"))
    text = look.get(f"/compare?a={origin.id}&b={fork.id}").text
    assert "They part after" in text and "Verdict, cost, time" in text and '<svg class="forks"' in text
    assert f"/sessions/{fork.id}" in text and "head @" in text
    alone = look.get(f"/compare?a={fork.id}")
    assert alone.status_code == 200 and "They part after" in alone.text, "a fork is compared with its origin"
    assert look.get("/compare?a=nothing-here").status_code == 404


def test_the_command_line_has_the_figures_of_the_page_and_those_of_what_is_asked_for(
    harness: ServerHarness, tmp_path: Path
) -> None:
    worked(harness.rl, "one", labels={"team": "red"}, words=("a", "bad"))
    worked(harness.rl, "two")
    harness.rl.sessions.archive("two")
    page, shell = harness.client("read").get("/api/costs").json(), Shell(harness.store, tmp_path)
    told = shell.json("list", "--costs")
    assert told == {name: page[name] for name in told} and told["total"]["cost"] == 1.5
    red = shell.json("list", "--costs", "--label", "team=red", "--since", "1d")
    assert (red["total"]["cost"], red["sessions"], red["days"], red["tools"][0]["calls"]) == (1.0, 1, 1, 2)
    plain = shell.run("list", "--costs").stdout
    assert "model\tgpt-5\t1.500000" in plain and "tool\tlookup\t1.500000\t3\t1" in plain
    screen = shell.screen("list", "--costs").text
    assert all(one in screen for one in ("$1.50 and", "DAY", "MODEL", "team=red", "COST (ESTIMATE)", "lookup")), screen
    assert shell.run("list", "--costs", "--sort", "cost").returncode == 2
