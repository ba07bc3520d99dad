"""The Claude Agent SDK's session store: its own suite passes, and what it does not ask for holds as well."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import SessionKey, SessionListSubkeysKey

import relight
from relight.errors import Corrupt, HasForks, InvalidMessage, NotFound, UsageError
from relight.frameworks.claude_agent_sdk import RelightSessionStore
from relight.sessions import shared
from relight.values.policy import Retention
from tests.integration.frameworks.conftest import Open

SESSION = "0b7f6f3e-1c52-4a07-9a3e-3f1f3b9b7a11"
KEY: SessionKey = {"project_key": "-home-me-project", "session_id": SESSION}
MAIN: SessionListSubkeysKey = {"project_key": KEY["project_key"], "session_id": SESSION}
SUB: SessionKey = {**KEY, "subpath": "subagents/agent-1"}


def line(kind: str, content: Any, *, parent: str | None = None, **more: Any) -> Any:
    """A line as Claude Code writes it."""
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"msg_{uuid.uuid4().hex}", "model": "m", "stop_reason": more.pop("stop", "end_turn")}
        message["usage"] = {"input_tokens": 10, "output_tokens": 2}
    return {
        "type": kind,
        "uuid": str(uuid.uuid4()),
        "parentUuid": parent,
        "sessionId": SESSION,
        "timestamp": "2026-11-15T12:00:00.000Z",
        "message": message,
        **more,
    }


def turn(text: str, parent: str | None = None) -> list[Any]:
    """A question and its answer."""
    asked = line("user", text, parent=parent)
    return [asked, line("assistant", [{"type": "text", "text": f"re: {text}"}], parent=asked["uuid"])]


def append(store: RelightSessionStore, entries: list[Any], key: SessionKey = KEY) -> None:
    asyncio.run(store.append(key, entries))


def load(store: RelightSessionStore, key: SessionKey = KEY) -> Any:
    return asyncio.run(store.load(key))


def test_the_sdks_own_suite_passes_on_every_store(fresh: Open) -> None:
    made = []

    def make() -> RelightSessionStore:
        made.append(RelightSessionStore(fresh()))
        return made[-1]

    asyncio.run(run_session_store_conformance(make))
    assert len(made) == 15  # one to see which methods there are, one for each of its 14 contracts: none was left out


def test_a_line_is_taken_once_however_often_and_by_whomever_it_is_given(location: Open) -> None:
    one, other = RelightSessionStore(location()), RelightSessionStore(location())
    lines, title = turn("hello"), {"type": "custom-title", "customTitle": "T"}
    append(one, [lines[0], lines[0], title])
    append(other, [*lines, title])
    append(one, lines)
    assert load(one) == load(other) == [lines[0], title, lines[1], title]
    append(one, lines, SUB)
    append(other, lines, SUB)
    assert load(other, SUB) == lines


def test_appends_that_are_made_at_once_keep_the_order_of_the_calls(location: Open) -> None:
    store = RelightSessionStore(location())

    async def all_at_once() -> None:
        numbered: list[Any] = [{"type": "x", "n": number} for number in range(40)]
        await asyncio.gather(*(store.append(KEY, [entry]) for entry in numbered))

    asyncio.run(all_at_once())
    assert [entry["n"] for entry in load(store)] == list(range(40))


def test_a_transcript_is_a_session_like_any_other(location: Open, tmp_path: Path) -> None:
    rl = location()
    store = RelightSessionStore(rl, labels={"team": "blue"})
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    asked, said = turn("look around")
    append(store, [asked, line("assistant", [{"type": "text", "text": "I look."}], stop="tool_use")])
    assert (
        rl.sessions.get(store.ref(SESSION, KEY["project_key"])).status == "working"
    )  # the call of this reply is still to come
    append(store, [line("assistant", [call], stop=None)])
    append(store, [line("user", "go", agentId="1")], SUB)
    info = rl.sessions.get(store.ref(SESSION, KEY["project_key"]))
    assert (info.status, info.agent, info.key, info.message_count) == ("working", "claude-agent-sdk", SESSION, 3)
    assert info.labels == {"project": KEY["project_key"], "team": "blue"}
    assert [call.name for call in rl.history.load(info.id).calls] == ["Bash"]
    append(store, [line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a b"}]), said])
    info = rl.sessions.get(info.id)
    assert (info.status, info.said, info.usage.input_tokens, info.turns) == ("completed", "re: look around", 30, 2)
    assert [one.id for one in rl.sessions.list(search=SESSION)] == [info.id]
    assert rl.history.verify(info.id).ok
    assert len(list(rl.history.documents(info.id))) == info.seq + 1
    rl.history.export(info.id, tmp_path / "session.bundle")
    assert rl.admin.sweep(dry_run=True).sessions == []
    assert rl.admin.sweep(Retention(finished_days=-1)).sessions == [info.id]
    assert load(store) is None and load(store, SUB) is None


def test_a_bundle_carries_a_transcript_to_another_store(location: Open, tmp_path: Path) -> None:
    rl = location()
    store, key = RelightSessionStore(rl), b"0123456789abcdef0123456789abcdef"
    lines = turn("hello")
    append(store, lines)
    append(store, lines[:1], SUB)
    rl.history.export(store.ref(SESSION, KEY["project_key"]), tmp_path / "session.bundle", redact=False, key=key)
    with relight.open(tmp_path / "elsewhere.db") as far:
        far.history.import_(tmp_path / "session.bundle", key=key)
        there = RelightSessionStore(far)
        assert (load(there), load(there, SUB)) == (lines, lines[:1])
        assert asyncio.run(there.list_subkeys(MAIN)) == ["subagents/agent-1"]


def test_the_sdks_own_helpers_work_on_it(location: Open, tmp_path: Path) -> None:
    store = RelightSessionStore(location())
    key: SessionKey = {"project_key": project_key_for_directory(str(tmp_path)), "session_id": SESSION}
    lines = turn("hello")
    append(store, lines, key)

    async def use() -> tuple[Any, ...]:
        listed = await list_sessions_from_store(store, directory=str(tmp_path))
        messages = await get_session_messages_from_store(store, SESSION, directory=str(tmp_path))
        forked = await fork_session_via_store(store, SESSION, directory=str(tmp_path))
        copy = await store.load({**key, "session_id": forked.session_id})
        await delete_session_via_store(store, SESSION, directory=str(tmp_path))
        return listed, messages, copy, await store.load(key), await list_sessions_from_store(store, str(tmp_path))

    listed, messages, copy, gone, left = asyncio.run(use())
    assert [(one.session_id, one.first_prompt) for one in listed] == [(SESSION, "hello")]
    assert [one.uuid for one in messages] == [one["uuid"] for one in lines]
    said = [one["message"]["content"] for one in copy if "message" in one]
    assert said == [one["message"]["content"] for one in lines]
    assert gone is None and len(left) == 1


def test_the_rest_of_a_removed_transcript_does_not_come_back(location: Open) -> None:
    here, there = RelightSessionStore(location()), RelightSessionStore(location())
    lines = turn("hello")
    append(there, lines)
    append(here, lines)
    asyncio.run(here.delete(KEY))
    late = turn("and then", parent=lines[-1]["uuid"])
    never_saw_it = RelightSessionStore(location())
    for store in (here, there, here, there, never_saw_it):
        with pytest.raises(NotFound):
            append(store, late)
        with pytest.raises(NotFound):
            append(store, [{"type": "custom-title", "customTitle": "T", "sessionId": SESSION}])
        for of_a_helper in (late[:1], turn("the first word to a helper")):
            with pytest.raises(NotFound):
                append(store, of_a_helper, SUB)
    assert list(here._rl.sessions.list()) == []
    append(there, lines)
    assert load(there) == load(here) == lines


def test_removals_are_remembered_for_a_while_in_little_room_and_without_a_name(
    location: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_MAX_REMEMBERED", 3)
    rl = location()
    for number in range(5):
        key: SessionKey = {**KEY, "session_id": f"canary-{number}"}
        append(RelightSessionStore(rl), turn("hello"), key)
        asyncio.run(RelightSessionStore(rl).delete(key))
    kept = rl._context.store.list_records("removed")
    assert len(kept) == 3 and "canary" not in repr(kept)
    late = turn("and then", parent="somewhere")
    with pytest.raises(NotFound):
        append(RelightSessionStore(rl), late, key)
    monkeypatch.setattr(shared, "_REMEMBERED_US", 0)
    append(RelightSessionStore(rl), late, key)
    assert load(RelightSessionStore(rl), key) == late


def test_a_conversation_that_began_elsewhere_may_be_gone_on_with_here(location: Open) -> None:
    store, rest = RelightSessionStore(location()), turn("and then", parent="somewhere")
    append(store, rest)
    assert load(store) == rest


def test_a_transcript_with_forks_of_relight_is_not_removed_under_them(location: Open) -> None:
    rl = location()
    store = RelightSessionStore(rl)
    append(store, turn("hello"))
    fork = rl.history.fork(store.ref(SESSION, KEY["project_key"]), name="mine")
    with pytest.raises(HasForks):
        asyncio.run(store.delete(KEY))
    assert len(rl.history.load(fork.id).messages) == 2
    assert [one["session_id"] for one in asyncio.run(store.list_sessions(KEY["project_key"]))] == [SESSION]


def test_a_tool_waits_until_its_call_is_durable_and_does_not_start_where_it_cannot_be(
    location: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RelightSessionStore(location())
    [matcher] = store.hooks()["PreToolUse"]
    [hook] = matcher.hooks
    asked = line("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}], stop="tool_use")

    def reported(call: str) -> Any:
        return {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": call}

    async def begin(call: str) -> Any:
        return await hook(reported(call), call, {"signal": None})

    async def in_time() -> Any:
        waiting = asyncio.create_task(begin("t1"))
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.append(KEY, [asked])
        return await waiting

    assert asyncio.run(in_time()) == {}
    assert matcher.on_failure == "block"
    monkeypatch.setattr("relight.frameworks.claude_agent_sdk.store.HOOK_SECONDS", 0.01)
    refused = asyncio.run(begin("t2"))["hookSpecificOutput"]
    assert refused["permissionDecision"] == "deny" and "nothing ran" in refused["permissionDecisionReason"]
    again = RelightSessionStore(location())
    load(again)
    [known] = again.hooks()["PreToolUse"]
    assert asyncio.run(known.hooks[0](reported("t1"), "t1", {"signal": None})) == {}  # type: ignore[arg-type]


def test_files_and_conversation_go_back_together(location: Open, tmp_path: Path) -> None:
    rl, work = location(), tmp_path / "work"
    work.mkdir()
    store = RelightSessionStore(rl, workspace=work)
    first = turn("write one")
    (work / "a.txt").write_text("one")
    append(store, first)
    ref = store.ref(SESSION, KEY["project_key"])
    kept = rl.history.checkpoints(ref)[-1]
    assert kept.snapshot
    (work / "a.txt").write_text("two")
    (work / "b.txt").write_text("new")
    append(store, turn("write two", parent=first[-1]["uuid"]))
    store.close()
    rl.history.rewind(kept.id, files=True)
    assert load(store) == first
    assert {path.name: path.read_text() for path in work.iterdir()} == {"a.txt": "one"}
    again = turn("another way", parent=first[-1]["uuid"])
    append(store, again)
    assert load(store) == [*first, *again]


def test_a_flipped_bit_is_named_and_the_line_before_is_offered(location: Open, tmp_path: Path) -> None:
    rl = location()
    store = RelightSessionStore(rl)
    first = turn("one")
    append(store, first)
    append(store, turn("two", parent=first[-1]["uuid"]))
    ref, last = store.ref(SESSION, KEY["project_key"]), rl.sessions.get(store.ref(SESSION, KEY["project_key"])).seq
    rl.close()
    with sqlite3.connect(tmp_path / "r.db") as database:
        [(place_of, data)] = database.execute(
            "SELECT id, data FROM bodies WHERE id = (SELECT body FROM steps ORDER BY id DESC LIMIT 1)"
        ).fetchall()
        flipped = bytes([*data[:-9], data[-9] ^ 4, *data[-8:]])
        database.execute("UPDATE bodies SET data = ? WHERE id = ?", (flipped, place_of))
    store = RelightSessionStore(location())
    with pytest.raises(Corrupt) as caught:
        load(store)
    assert (caught.value.seq, caught.value.offered) == (last, f"{ref}@{last - 1}")
    store._rl.runs.prepare(ref, from_last_good=True)
    assert load(store) == first


def test_lines_of_any_content_come_back_as_they_were(location: Open) -> None:
    store = RelightSessionStore(location())
    odd = [
        {"type": "x", "uuid": "1", "text": "\ud83d lone", "n": 2**70, "deep": [[[{"a": None}]]], "empty": {}},
        {"type": "x", "lc": 1, "id": ["os", "system"], "kwargs": {"command": "touch ran"}, "__reduce__": "os.system"},
        {"type": "x", "uuid": 7, "py/object": "os.system", "!": "!!python/object/apply:os.system"},
    ]
    append(store, odd)
    append(store, odd[1:])
    assert load(store) == [*odd, *odd[1:]]
    with pytest.raises(InvalidMessage, match="set"):
        append(store, [{"type": "x", "value": {1}}])
    with pytest.raises(UsageError, match="dict"):
        append(store, ["line"])


@pytest.mark.parametrize("project", ["../../etc", "a/b", "", "x" * 300, "\x00", "é"])
@pytest.mark.parametrize("session", ["../s", ".", "s\n", "x" * 300, "'; DROP TABLE steps;--", "--"])
def test_keys_are_data(project: str, session: str) -> None:
    with relight.open("memory:") as rl:
        store = RelightSessionStore(rl)
        key: SessionKey = {"project_key": project, "session_id": session, "subpath": f"{session}#9/{project}#"}
        main: SessionKey = {"project_key": project, "session_id": session}
        if not project:
            with pytest.raises(UsageError, match="project_key"):
                append(store, turn("hi"), key)
            return
        lines = turn("hi")
        append(store, lines, main)
        append(store, lines, key)
        append(store, [{"type": "x"}], key)
        assert load(store, main) == lines
        assert load(store, key) == [*lines, {"type": "x"}]
        assert asyncio.run(store.list_subkeys(main)) == [key["subpath"]]
        assert [one["session_id"] for one in asyncio.run(store.list_sessions(project))] == [session]


def test_it_stands_on_an_open_store_and_says_so() -> None:
    with pytest.raises(UsageError, match=r"relight\.open"):
        RelightSessionStore("r.db")  # type: ignore[arg-type]


def test_lists_are_told_while_others_delete(location: Open) -> None:
    here, there = RelightSessionStore(location()), RelightSessionStore(location())
    keys: list[SessionKey] = [{"project_key": "busy", "session_id": f"s{number}"} for number in range(6)]
    done = threading.Event()

    def come_and_go() -> None:
        for _ in range(5):
            for key in keys:
                append(there, turn("hello"), key)
                asyncio.run(there.delete(key))
        done.set()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        while not done.is_set():
            reported = asyncio.run(here.list_session_summaries("busy"))
            assert {one["session_id"] for one in reported} <= {key["session_id"] for key in keys}
    finally:
        other.join()


def test_a_line_of_an_odd_type_is_a_line(location: Open) -> None:
    store = RelightSessionStore(location())
    types: list[Any] = [["user"], {}, 5, None, True]
    odd = [{"uuid": f"u{number}", "type": one} for number, one in enumerate(types)]
    append(store, odd)
    assert load(store) == odd
