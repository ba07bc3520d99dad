"""The Cursor SDK's store handler: driven by the SDK's own dispatch, and by its real bridge.

The bridge is the SDK's own Node program. Its model loop needs Cursor's servers and cannot be played offline; with a
stand-in on loopback for the few answers it wants first, it creates agents and runs, appends events and deletes, all of
it through our handler.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cursor_sdk import Client, LocalAgentOptions, LocalAgentStoreConfig
from cursor_sdk._local_store import dispatch_store_op, is_local_agent_store_handler

import relight
from relight.errors import InvalidMessage, NotFound, UsageError
from relight.frameworks.cursor import RelightAgentStore
from relight.library.facade import Relight
from tests.guarantees.conftest import fork_server, memory_path
from tests.integration.frameworks.conftest import Open
from tests.support.child_processes import ForkServer, lines_of

__all__ = ["fork_server", "memory_path"]

THREADS = 32


@pytest.fixture
def rl() -> Iterator[Relight]:
    with relight.open("memory:") as one:
        yield one


def calls(store: RelightAgentStore) -> Callable[..., Any]:
    """An operation as the bridge asks for it: through the SDK's dispatch, its answer made JSON."""
    assert is_local_agent_store_handler(store)

    def call(operation: str, **payload: Any) -> Any:
        substore, _, method = operation.partition(".")
        return json.loads(json.dumps(dispatch_store_op(store, substore, method, payload)))

    return call


def agent(name: str, updated: int = 1, **more: Any) -> dict[str, Any]:
    return {"agentId": name, "cwd": "/w", "status": "idle", "createdAt": 1, "updatedAt": updated, **more}


def a_run(name: str, owner: str, turn: int = 1, **more: Any) -> dict[str, Any]:
    return {"runId": name, "agentId": owner, "turnNumber": turn, "status": "queued", "createdAt": 1, **more}


def every_event(call: Callable[..., Any], run: str, limit: int | None = None) -> list[dict[str, Any]]:
    events, offset = [], None
    while True:
        page = call("runEvents.list", runId=run, afterOffset=offset, **({} if limit is None else {"limit": limit}))
        events += page["items"]
        offset = page.get("nextOffset")
        if offset is None:
            return events


# -- events -------------------------------------------------------------------------------------------------------


def test_events_appended_by_32_threads_have_no_gap_and_no_duplicate(fresh: Open) -> None:
    call = calls(RelightAgentStore(fresh()))

    def append(thread: int) -> None:
        for number in range(4):
            call("runEvents.append", runId="run-1", eventType="delta", payload=[thread, number])

    workers = [threading.Thread(target=append, args=(thread,)) for thread in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    events = every_event(call, "run-1", limit=50)
    assert [event["seq"] for event in events] == list(range(1, 4 * THREADS + 1))
    assert [event["offset"] for event in events] == [str(event["seq"]) for event in events]
    assert {tuple(event["payload"]) for event in events} == {(one, two) for one in range(THREADS) for two in range(4)}
    for thread in range(THREADS):
        assert [event["payload"][1] for event in events if event["payload"][0] == thread] == [0, 1, 2, 3]


@pytest.mark.crash
def test_events_of_several_processes_one_of_them_killed_have_no_gap_and_no_duplicate(
    memory_path: Path, fork_server: ForkServer
) -> None:
    store, reported = memory_path / "r.db", memory_path / "told"
    common = {"store": store, "run": "run-1", "threads": 4, "count": 12, "reported": reported}
    children = [
        fork_server.run("append_events", "commit.committed:20:kill" if me == "b" else "", me=me, **common)
        for me in "abc"
    ]
    assert [child.was_killed for child in children] == [False, True, False]
    with relight.open(store) as rl:
        events = every_event(calls(RelightAgentStore(rl)), "run-1")
        acknowledged = dict(line.split() for line in lines_of(reported))
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        there = {event["payload"]["mark"]: event["offset"] for event in events}
        assert len(there) == len(events)
        assert acknowledged.items() <= there.items()
        assert {f"{me}.{thread}.{number}" for me in "ac" for thread in range(4) for number in range(12)} <= set(there)
        assert rl.history.verify().ok


def test_an_event_with_a_key_is_taken_once_by_whomever(location: Open) -> None:
    one, other = calls(RelightAgentStore(location())), calls(RelightAgentStore(location()))
    given = {"runId": "run-1", "eventType": "done", "payload": {"a": 1}, "idempotencyKey": "k1"}
    first = one("runEvents.append", **given)
    one("runEvents.append", runId="run-1", eventType="delta", idempotencyKey=None)
    again = other("runEvents.append", **{**given, "payload": {"a": 2}})
    assert again == first
    assert first == {**given, "payloadRef": None, "seq": 1, "offset": "1", "createdAt": first["createdAt"]}
    assert [event["seq"] for event in every_event(other, "run-1")] == [1, 2]
    assert other("runEvents.append", **{**given, "runId": "run-2"})["seq"] == 1


def test_events_are_paged_and_deleted_by_run(rl: Relight) -> None:
    call = calls(RelightAgentStore(rl))
    for number in range(7):
        call("runEvents.append", runId="run-1", eventType="delta", payload=number)
    call("runEvents.append", runId="run-2", eventType="delta")
    page = call("runEvents.list", runId="run-1", afterOffset="2", limit=3)
    assert [event["payload"] for event in page["items"]] == [2, 3, 4] and page["nextOffset"] == "5"
    assert "nextOffset" not in call("runEvents.list", runId="run-1", afterOffset="4", limit=3)
    assert call("runEvents.list", runId="nobody") == {"items": []}
    call("runEvents.delete", filter={"runIds": ["run-1"]})
    assert every_event(call, "run-1") == [] and len(every_event(call, "run-2")) == 1
    call("runEvents.delete", filter={})
    assert list(rl.sessions.list()) == []
    with pytest.raises(UsageError, match="offset"):
        call("runEvents.append", runId="run-1", eventType="x") and call(
            "runEvents.list", runId="run-1", afterOffset="x"
        )


def test_a_late_event_does_not_bring_a_deleted_run_back(location: Open) -> None:
    here, there = calls(RelightAgentStore(location())), calls(RelightAgentStore(location()))
    here("agents.create", agent=agent("a1"))
    here("runs.create", run=a_run("r1", "a1"))
    for call in (here, there):
        call("runEvents.append", runId="r1", eventType="delta")
    there("runs.delete", filter={"agentIds": ["a1"]})
    for call in (here, there):
        with pytest.raises(NotFound):
            call("runEvents.append", runId="r1", eventType="late")
    here("runs.create", run=a_run("r1", "a1"))
    assert here("runEvents.append", runId="r1", eventType="delta")["seq"] == 1


# -- rows and blobs -----------------------------------------------------------------------------------------------


def test_rows_are_kept_found_listed_and_deleted(fresh: Open) -> None:
    call = calls(RelightAgentStore(fresh()))
    assert call("agents.get", agentId="a0") is None and call("agents.list") == {"items": []}
    for number in range(5):
        row = agent(f"a{number}", number // 2, cwd="/w" if number else "/other", sdkMetadata={"k": [1, None]})
        assert call("agents.create", agent=row) == row
        assert call("agents.get", agentId=f"a{number}") == row
    first = call("agents.list", filter={"limit": 3})
    rest = call("agents.list", filter={"limit": 3, "cursor": first["nextCursor"]})
    assert [row["agentId"] for row in first["items"] + rest["items"]] == ["a4", "a3", "a2", "a1", "a0"]
    assert "nextCursor" not in rest
    assert [row["agentId"] for row in call("agents.list", filter={"cwd": "/other"})["items"]] == ["a0"]
    for turn in (2, 1, 3):
        call("runs.create", run=a_run(f"r{turn}", "a1", turn))
    call("runs.create", run=a_run("r1", "a2"))
    assert [row["runId"] for row in call("runs.list", filter={"agentIds": ["a1"]})["items"]] == ["r1", "r2", "r3"]
    assert len(call("runs.list", filter={"runIds": ["r1"]})["items"]) == 2
    page = call("runs.list", filter={"agentIds": ["a1"], "limit": 2})
    assert [row["runId"] for row in page["items"]] == ["r1", "r2"]
    following = call("runs.list", filter={"agentIds": ["a1"], "cursor": page["nextCursor"]})
    assert [row["runId"] for row in following["items"]] == ["r3"]
    changed = a_run("r2", "a1", 2, status="finished", result="done")
    assert call("runs.update", run=changed) == changed == call("runs.get", agentId="a1", runId="r2")
    assert call("runs.get", agentId="a2", runId="r2") is None
    call("runs.delete", filter={"agentIds": ["a1"], "runIds": ["r2"]})
    assert [row["runId"] for row in call("runs.list", filter={"agentIds": ["a1"]})["items"]] == ["r1", "r3"]
    call("agents.delete", filter={"agentIds": ["a1"]})
    assert call("agents.get", agentId="a1") is None


def test_what_cannot_be_is_refused_and_changes_nothing(rl: Relight) -> None:
    call = calls(RelightAgentStore(rl))
    call("agents.create", agent=agent("a1"))
    call("runs.create", run=a_run("r1", "a1"))
    call("checkpoints.create", agentId="a1", blobId="00", data="AA==")
    before = {info.id: info.seq for info in rl.sessions.list()}
    for operation, payload in (
        ("agents.create", {"agent": agent("a1")}),
        ("agents.update", {"agent": agent("a2")}),
        ("agents.delete", {"filter": {"agentIds": ["a2"]}}),
        ("agents.list", {"filter": {"cursor": "?"}}),
        ("agents.list", {"filter": {"limit": -1}}),
        ("runs.create", {"run": a_run("r1", "a1")}),
        ("runs.update", {"run": a_run("r2", "a1")}),
        ("runs.update", {"run": a_run("r1", "a2")}),
        ("runEvents.append", {"runId": "r1"}),
        ("runEvents.append", {"eventType": "x"}),
        ("checkpoints.create", {"agentId": "a1", "blobId": "00", "data": "AA=="}),
        ("checkpoints.update", {"agentId": "a1", "blobId": "01", "data": "AA=="}),
        ("checkpoints.update", {"agentId": "a2", "blobId": "00", "data": "AA=="}),
        ("checkpoints.create", {"agentId": "a1", "blobId": "02", "data": 7}),
        ("agents.create", {"agent": agent("a3", sdkMetadata={1, 2})}),
        ("agents.create", {"agent": "a3"}),
    ):
        with pytest.raises((UsageError, NotFound, InvalidMessage)):
            call(operation, **payload)
    assert {info.id: info.seq for info in rl.sessions.list()} == before


def test_blobs_are_kept_by_agent(fresh: Open) -> None:
    call = calls(RelightAgentStore(fresh()))
    assert call("checkpoints.get", agentId="a1", blobId="00") == {"found": False}
    for blob in ("03", "01", "02"):
        call("checkpoints.create", agentId="a1", blobId=blob, data=f"{blob}==")
    call("checkpoints.create", agentId="a2", blobId="01", data="zz==")
    call("checkpoints.update", agentId="a1", blobId="01", data="yy==")
    assert call("checkpoints.get", agentId="a1", blobId="01") == {"found": True, "data": "yy=="}
    first = call("checkpoints.list", filter={"agentIds": ["a1"], "limit": 2})
    assert first == {"items": ["01", "02"], "nextCursor": "02"}
    assert call("checkpoints.list", filter={"agentIds": ["a1"], "cursor": "02"}) == {"items": ["03"]}
    call("checkpoints.delete", filter={"agentIds": ["a1"], "blobIds": ["01", "09"]})
    assert call("checkpoints.list", filter={"agentIds": ["a1"]}) == {"items": ["02", "03"]}
    call("checkpoints.delete", filter={"agentIds": ["a1"]})
    assert call("checkpoints.list", filter={"agentIds": ["a1"]}) == {"items": []}
    assert call("checkpoints.get", agentId="a2", blobId="01") == {"found": True, "data": "zz=="}


def test_agents_and_runs_are_sessions_like_any_other(rl: Relight) -> None:
    store = RelightAgentStore(rl, labels={"team": "blue"})
    call = calls(store)
    call("agents.create", agent=agent("agent-1", status="running"))
    call("runs.create", run=a_run("run-1", "agent-1"))
    call("runEvents.append", runId="run-1", eventType="delta")
    for ref in (store.ref("agent-1"), store.run_ref("run-1")):
        assert rl.sessions.get(ref).status == "working" and rl.sessions.get(ref).agent == "cursor"
        assert rl.sessions.get(ref).labels["team"] == "blue"
    call("runs.update", run=a_run("run-1", "agent-1", status="error"))
    call("agents.update", agent=agent("agent-1", status="error"))
    call("runEvents.append", runId="run-1", eventType="last word")
    assert {rl.sessions.get(ref).status for ref in (store.ref("agent-1"), store.run_ref("run-1"))} == {"failed"}
    call("runs.update", run=a_run("run-1", "agent-1", status="finished"))
    assert rl.sessions.get(store.run_ref("run-1")).status == "completed"
    assert rl.history.verify().ok
    call("agents.delete", filter={"agentIds": ["agent-1"]})
    assert len(call("runs.list", filter={"agentIds": ["agent-1"]})["items"]) == 1
    call("runs.delete", filter={"agentIds": ["agent-1"]})
    assert list(rl.sessions.list()) == []


# -- the real bridge ----------------------------------------------------------------------------------------------


class StandIn(BaseHTTPRequestHandler):
    """The few answers of Cursor's servers that a local agent wants before its first turn; the turn is refused."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answers: dict[str, Any] = {
            "/auth/exchange_user_api_key": {"accessToken": "a.e30.c", "refreshToken": "r"},
            "/v1/models": {"items": [{"id": "composer-1", "displayName": "Composer"}]},
        }
        refused = "AgentService" in self.path or "BidiService" in self.path
        answer = {"code": "permission_denied", "message": "no model here"} if refused else answers.get(self.path, {})
        body = json.dumps(answer).encode()
        self.send_response(403 if refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name in ("CURSOR_BACKEND_URL", "CURSOR_WEBSITE_URL"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def bridge(store: RelightAgentStore, directory: Path) -> Iterator[tuple[Client, LocalAgentOptions]]:
    local = LocalAgentOptions(cwd=directory, store=LocalAgentStoreConfig(type="custom"))
    client = Client.launch_bridge(local=local, store_handler=store, workspace=directory)
    owned = client._owned_bridge
    pipe = owned.process.stderr if owned is not None and owned.process is not None else None
    try:
        yield client, local
    finally:
        client.close()
        assert pipe is not None
        pipe.close()  # which the SDK leaves to the garbage collector


def test_the_real_bridge_keeps_agents_runs_and_events_in_it_and_another_finds_them(
    tmp_path: Path, backend: None
) -> None:
    with relight.open(tmp_path / "r.db") as rl, bridge(RelightAgentStore(rl), tmp_path) as (client, local):
        made = client.agents.create(api_key="key_fake", model="composer-1", local=local, name="helper")
        run = made.send("hello")
        assert run.wait().status == "error"
    with relight.open(tmp_path / "r.db") as rl:
        store = RelightAgentStore(rl)
        assert rl.sessions.get(store.ref(made.agent_id)).status == "failed"
        events = every_event(calls(store), run.id)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and len(events) >= 2
        with bridge(store, tmp_path) as (client, _):
            [listed] = client.agents.list(runtime="local", cwd=str(tmp_path)).items
            assert (listed.agent_id, listed.name) == (made.agent_id, "helper")
            [row] = client.agents.list_runs(made.agent_id, runtime="local", cwd=str(tmp_path)).items
            assert (row.id, row.status) == (run.id, "error")
            client.agents.delete(made.agent_id, {"cwd": str(tmp_path)})
        assert list(rl.sessions.list()) == []
