"""The chosen step beside a history: what went in, what came out, what it took and what it changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import relight
from relight.history.events import Event
from relight.server.pages.step import step_view
from tests.support.server_harness import ServerHarness

START = datetime(2026, 11, 15, 9, tzinfo=UTC)
PAGE = {"accept": "text/html"}
PART = {**PAGE, "x-relight-part": "1"}


def event(seq: int, kind: Any = "message", **parts: Any) -> Event:
    at = START + timedelta(seconds=10 * seq)
    return Event(session="s", seq=seq, kind=kind, at=at, attempt=1, label=None, **parts)


def session() -> list[Event]:
    ask = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "make test"}}
    outcome = {"id": "c", "asked_seq": 2, "status": "error", "content": "2 failed", "synthetic": False}
    usage = {"input_tokens": 12_000, "output_tokens": 30, "cost": 0.02}
    failed = {"status": "failed", "reason": "auth", "question": None, "failure": {"text": "401"}, "result": None}
    return [
        event(1, messages=[{"role": "user", "content": "go"}]),
        event(2, messages=[{"role": "assistant", "content": [{"type": "text", "text": "ok"}, ask]}], usage=usage),
        event(3, "intent", intents=[{"id": "c", "name": "Bash", "effect": "once", "asked_seq": 2}]),
        event(4, "result", outcomes=[outcome]),
        event(5, messages=[{"role": "assistant", "content": [{"type": "text", "text": "done"}]}], usage=usage),
        event(6, "status", status=failed),
    ]


def view(seq: int) -> Any:
    return step_view(session(), seq, "anthropic")


def test_a_reply_has_what_it_answers_and_what_it_cost() -> None:
    first, second = view(2), view(5)
    assert [part.kind for part in first.parts] == ["text", "call"]
    assert first.facts == [("reply took", "10 s"), ("tokens", "12 k in, 30 out"), ("cost", "$0.02")]
    assert [entry.parts[0].text for entry in first.given] == ["go"]
    (given,) = second.given
    assert given.speaker == "tool" and given.parts[0].results[0].text == "2 failed"


def test_each_step_of_a_call_shows_the_call_with_its_result() -> None:
    for seq in (3, 4):
        (part,) = view(seq).parts
        assert (part.title, part.shown.text, part.results[0].shown.text) == ("Bash", "make test", "2 failed")
        assert view(seq).facts == [("took", "10 s")] and view(seq).until == 4
    assert (view(3).previous, view(3).next, view(6).next) == (2, 4, None)


def test_a_failure_is_told_and_everything_else_is_there_as_data() -> None:
    assert view(6).error == "auth\n401" and '"status": "failed"' in view(6).also
    assert step_view(session(), 7, "anthropic") is None


def test_words_for_programs_are_told_in_words_for_people() -> None:
    left = {"status": "terminated", "reason": "left", "question": None, "failure": None, "result": None}
    events = [event(1, "status", status=left), event(2, "mark", note={"tools_changed": ["- Bash", "+ Edit"]})]
    told = [step_view(events, seq, "anthropic") for seq in (1, 2)]
    assert told[0] is not None and told[0].error == "left unfinished by its program"
    assert told[1] is not None and told[1].title == "tools changed: - Bash, + Edit"


def test_a_step_has_the_files_it_changed_its_plan_and_its_raw_form(harness: ServerHarness, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()

    @relight.tool(effect="idempotent")
    def edit(text: str) -> str:
        (work / "a.txt").write_text(text)
        return "written"

    with harness.rl.session("editing", provider="openai", workspace=work) as s:
        s.append({"role": "user", "content": "go"})
        call = {"id": "c1", "type": "function", "function": {"name": "edit", "arguments": '{"text": "new line"}'}}
        s.append({"role": "assistant", "content": None, "tool_calls": [call]})
        for one in s.pending_calls():
            s.run_tool(one, [edit])
        last = int(s.head.rpartition("@")[2])
        s.complete(1)
    client, here = harness.client("read"), f"/sessions/{s.id}"
    page = client.get(f"{here}?at=@{last}", headers=PAGE).text
    part = client.get(f"{here}/step?seq={last}", headers=PART).text
    for text in (page, part):
        assert "a.txt" in text and "+new line" in text and "written" in text
    assert (
        client.get(f"{here}/step?seq={last}", headers=PAGE, follow_redirects=False)
        .headers["location"]
        .endswith(f"?at=@{last}")
    )
    assert "effects since" in client.get(f"{here}/step/back?seq={last}", headers=PART).text
    assert "&#34;kind&#34;: &#34;result&#34;" in client.get(f"{here}/step/raw?seq={last}", headers=PART).text
    assert client.get(f"{here}/step/raw?seq=999", headers=PART).status_code == 404
    assert "There is no step @999" in client.get(f"{here}/step?seq=999", headers=PART).text
