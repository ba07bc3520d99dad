"""`RelightAgentStore`: the Cursor SDK's `LocalAgentStoreHandler` on a relight store.

Every write is one durable step before it returns. Run events are numbered inside the commit that adds them, so that
any number of threads and processes can append to one run without gap or duplicate (`sessions/shared.py`); an event with
an idempotency key is stored once. Nothing that is stored is imported or run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal

from relight.errors import NotFound, UsageError
from relight.frameworks.cursor import rows
from relight.frameworks.cursor.rows import AGENT_ROW, Keys, Row
from relight.journal.codec import isolated
from relight.journal.fold import Fold
from relight.journal.redaction.recorded_fields import refuse_secret
from relight.library.facade import Relight, context_of
from relight.library.shared_sessions import OpenSessions, check_library, readable_part
from relight.sessions.redacting_store import ALL, REDACT_VARIABLE
from relight.sessions.shared import SharedSession, Write

AGENT: Final = "cursor"
KIND_LABEL: Final = "cursor"
MAX_OPEN: Final = 512
"""sessions that stay open between operations"""

Kind = Literal["agent", "run", "checkpoints"]
Payload = Mapping[str, Any]


class RelightAgentStore:
    """Pass it to `Client.launch_bridge(store_handler=...)` with a `local.store` of type `custom`. Thread-safe."""

    def __init__(
        self, rl: Relight, *, labels: Mapping[str, str] | None = None, lease_seconds: float | None = None
    ) -> None:
        sessions = Sessions(check_library(rl, "RelightAgentStore(rl)"), dict(labels or {}), lease_seconds)
        self._sessions = sessions
        self.agents = Agents(sessions)
        self.runs = Runs(sessions)
        self.run_events = RunEvents(sessions)
        self.checkpoints = Checkpoints(sessions)

    def ref(self, agent_id: str) -> str:
        """The relight session of an agent: its row and its runs."""
        return name_of("agent", agent_id)

    def run_ref(self, run_id: str) -> str:
        """The relight session of a run: its events, which `relight tail` follows."""
        return name_of("run", run_id)

    def close(self) -> None:
        """Release the leases of this process; the store stays usable."""
        self._sessions.close()


class Sessions:
    """The relight sessions behind the four substores, opened on demand."""

    def __init__(self, rl: Relight, labels: dict[str, str], lease_seconds: float | None) -> None:
        self._rl = rl
        self._labels = labels
        self._lease_seconds = lease_seconds
        self._open: OpenSessions[Keys] = OpenSessions(MAX_OPEN)

    def of(self, kind: Kind, key: str) -> SharedSession:
        return self.with_keys(kind, key)[0]

    def with_keys(self, kind: Kind, key: str) -> tuple[SharedSession, Keys]:
        name = name_of(kind, key)

        def begin() -> tuple[SharedSession, Keys]:
            labels, seconds = {**self._labels, KIND_LABEL: kind}, self._lease_seconds
            return self._rl.sessions.shared(name, agent=AGENT, key=key, labels=labels, lease_seconds=seconds), Keys()

        return self._open.of(name, begin)

    def all(self, kind: Kind) -> list[SharedSession]:
        found = self._rl.sessions.list(agent=AGENT, labels={KIND_LABEL: kind})
        return [self.of(kind, one.key) for one in found if one.key is not None and one.name == name_of(kind, one.key)]

    def check_key(self, key: str) -> None:
        """UsageError for an idempotency key that holds a secret, where all data is redacted: it would not be found
        again, and its event would be stored twice."""
        context = context_of(self._rl)
        if context.environment.get(REDACT_VARIABLE) == ALL:
            refuse_secret(key, "the idempotencyKey", context.redactor)

    def close(self) -> None:
        self._open.close()


class Agents:
    """The substore of agents."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def get(self, payload: Payload) -> Row | None:
        return self._sessions.of("agent", _text(payload, "agentId")).read(_agent_row)

    def create(self, payload: Payload) -> Row:
        return self._put(payload, is_new=True)

    def update(self, payload: Payload) -> Row:
        return self._put(payload, is_new=False)

    def _put(self, payload: Payload, *, is_new: bool) -> Row:
        row = _document(payload, "agent")
        shared = self._sessions.of("agent", _text(row, "agentId"))
        if shared.read(_agent_row) is None and not is_new:
            raise NotFound(row["agentId"], what="agent", hints=["create it first"])
        shared.write(partial(rows.put_agent, row=row, is_new=is_new))
        return row

    def delete(self, payload: Payload) -> None:
        given = _filter(payload)
        ids, cwd = rows.wanted(given, "agentIds"), given.get("cwd")
        removed = 0
        for shared in self._matching(ids):
            row = shared.read(_agent_row)
            if row is not None and cwd in (None, row.get("cwd")):
                shared.write(partial(rows.remove_rows, keys=[AGENT_ROW]))
                _drop_if_empty(shared)
                removed += 1
        if not removed:
            raise NotFound("the filter", what="agent", hints=["nothing was deleted"])

    def list(self, payload: Payload) -> Row:
        found = [row for shared in self._sessions.all("agent") if (row := shared.read(_agent_row)) is not None]
        return rows.page_of_agents(found, _filter(payload))

    def _matching(self, ids: set[str] | None) -> Sequence[SharedSession]:
        return self._sessions.all("agent") if ids is None else [self._sessions.of("agent", one) for one in sorted(ids)]


class Runs:
    """The substore of runs; their rows are in the session of their agent."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def get(self, payload: Payload) -> Row | None:
        key = rows.run_key(_text(payload, "runId"))
        shared = self._sessions.of("agent", _text(payload, "agentId"))
        return shared.read(lambda fold, _: isolated(fold.state.get(key)))

    def create(self, payload: Payload) -> Row:
        row = self._put(payload, is_new=True)
        events = self._sessions.of("run", row["runId"])
        events.read(lambda fold, _: None)  # reopens the session: a run of this id may have been deleted before
        return row

    def update(self, payload: Payload) -> Row:
        row = self._put(payload, is_new=False)
        events = self._sessions.of("run", row["runId"])
        if rows.verdict_of(row) is not None and events.read(lambda fold, _: True):
            events.write(partial(rows.end_events, status=str(row["status"])))
        return row

    def _put(self, payload: Payload, *, is_new: bool) -> Row:
        row = _document(payload, "run")
        run, agent = _text(row, "runId"), _text(row, "agentId")
        shared = self._sessions.of("agent", agent)
        if shared.read(lambda fold, _: True) is None and not is_new:
            raise NotFound(run, what="run", hints=["create it first"])
        shared.write(partial(rows.put_run, row=row, is_new=is_new))
        return row

    def delete(self, payload: Payload) -> None:
        """Delete runs with their events."""
        # The events last: after a crash between the two they belong to no run, and a retry by the run's id still
        # finds them. The other order would leave a run whose events are lost.
        given = _filter(payload)
        for shared, row in self._matching(given):
            shared.write(partial(rows.remove_rows, keys=[rows.run_key(row["runId"])]))
            _drop_if_empty(shared)
            self._sessions.of("run", row["runId"]).drop()

    def list(self, payload: Payload) -> Row:
        given = _filter(payload)
        return rows.page_of_runs([row for _, row in self._matching(given)], given)

    def _matching(self, given: Payload) -> Sequence[tuple[SharedSession, Row]]:
        agents, runs = rows.wanted(given, "agentIds"), rows.wanted(given, "runIds")
        sessions = self._sessions
        shared_sessions = (
            sessions.all("agent") if agents is None else [sessions.of("agent", one) for one in sorted(agents)]
        )
        found = [(shared, row) for shared in shared_sessions for row in shared.read(_run_rows) or ()]
        return [(shared, row) for shared, row in found if runs is None or row["runId"] in runs]


class RunEvents:
    """The events of a run, in the order of their commits."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def append(self, payload: Payload) -> Row:
        run = _text(payload, "runId")
        shared, keys = self._sessions.with_keys("run", run)
        key = payload.get("idempotencyKey") or None
        if key is not None and not isinstance(key, str):
            raise UsageError(f"idempotencyKey must be text, not {key!r:.100}")
        if key is not None:
            self._sessions.check_key(key)
        given: Row = isolated(
            {
                "runId": run,
                "eventType": _text(payload, "eventType"),
                "payload": payload.get("payload"),
                "payloadRef": payload.get("payloadRef"),
                "idempotencyKey": key,
                "createdAt": time.time_ns() // 1_000_000,
            }
        )
        result: list[Row] = []

        # Runs again on a newer state whenever another writer commits first, so the number is always the next one.
        def decide(fold: Fold) -> Write | None:
            existing = keys.find(fold, key)
            result[:] = [existing or rows.next_event(fold, given)]
            return rows.put_event(fold, result[0]) if existing is None else None

        shared.write(decide)
        return isolated(result[0])

    def list(self, payload: Payload) -> Row:
        def read(fold: Fold, _: object) -> Row:
            page, following = rows.events_after(fold.messages, payload.get("afterOffset"), payload.get("limit"))
            return {"items": isolated(page), **({"nextOffset": following} if following is not None else {})}

        return self._sessions.of("run", _text(payload, "runId")).read(read) or {"items": []}

    def delete(self, payload: Payload) -> None:
        runs = rows.wanted(_filter(payload), "runIds")
        sessions = self._sessions
        for shared in sessions.all("run") if runs is None else [sessions.of("run", one) for one in sorted(runs)]:
            shared.drop()


class Checkpoints:
    """The substore of checkpoint blobs, by agent; bytes are base64 on the wire and in the journal."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def get(self, payload: Payload) -> Row:
        blob = _text(payload, "blobId")
        shared = self._sessions.of("checkpoints", _text(payload, "agentId"))
        data = shared.read(lambda fold, _: rows.blob_of(fold.state, blob))
        return {"found": True, "data": data} if data is not None else {"found": False}

    def create(self, payload: Payload) -> None:
        self._put(payload, is_new=True)

    def update(self, payload: Payload) -> None:
        self._put(payload, is_new=False)

    def _put(self, payload: Payload, *, is_new: bool) -> None:
        blob, data = _text(payload, "blobId"), payload.get("data", "")
        if not isinstance(data, str):
            raise UsageError("data must be base64 text")
        shared = self._sessions.of("checkpoints", _text(payload, "agentId"))
        if shared.read(lambda fold, _: True) is None and not is_new:
            raise NotFound(blob, what="checkpoint blob", hints=["create it first"])
        shared.write(partial(rows.put_blob, blob=blob, data=data, is_new=is_new))

    def delete(self, payload: Payload) -> None:
        given = _filter(payload)
        blobs = rows.wanted(given, "blobIds")
        for shared in self._matching(given):
            if blobs is None:
                shared.drop()
            elif shared.read(lambda fold, _: True):
                shared.write(partial(rows.remove_blobs, blobs=sorted(blobs)))

    def list(self, payload: Payload) -> Row:
        given = _filter(payload)
        blobs = rows.wanted(given, "blobIds")
        found = [blob for shared in self._matching(given) for blob in shared.read(_blobs) or ()]
        return rows.page_of_blobs([one for one in found if blobs is None or one in blobs], given)

    def _matching(self, given: Payload) -> Sequence[SharedSession]:
        agents, sessions = rows.wanted(given, "agentIds"), self._sessions
        if agents is None:
            return sessions.all("checkpoints")
        return [sessions.of("checkpoints", one) for one in sorted(agents)]


def name_of(kind: Kind, key: str) -> str:
    """The session's name: the readable part of the SDK's id, the kind, and a digest that makes it unique."""
    digest = sha256(f"{kind}:{key}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable_part(key, length=70) or kind}.{kind}-{digest[:16]}"


def _agent_row(fold: Fold, _: object) -> Row | None:
    row: Row | None = isolated(fold.state.get(AGENT_ROW))
    return row


def _run_rows(fold: Fold, _: object) -> list[Row]:
    return isolated(rows.runs_of(fold.state))


def _blobs(fold: Fold, _: object) -> list[str]:
    return rows.blobs_of(fold.state)


def _drop_if_empty(shared: SharedSession) -> None:
    """Remove the session of an agent that has neither row nor runs any more."""
    shared.drop(only_if=lambda fold: AGENT_ROW not in fold.state and not rows.runs_of(fold.state))


def _text(payload: Payload, field: str) -> str:
    value = payload.get(field)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{field} is required")
    return value


def _document(payload: Payload, field: str) -> Row:
    value = payload.get(field)
    if not isinstance(value, dict):
        raise UsageError(f"{field} is required")
    return isolated(value)


def _filter(payload: Payload | None) -> Payload:
    given = (payload or {}).get("filter")
    return given if isinstance(given, Mapping) else {}
