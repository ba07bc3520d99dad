"""Runs every change requested over HTTP: idempotency key, audit log, plan hash, then the verb itself.

    look up the key  ->  audit entry "begun"  ->  verb, if the plan hash still matches  ->  outcome to entry and key

If the server is killed after "begun", the entry stays so, and a retry under the same key is refused with "outcome
unknown" instead of being run twice.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

import msgspec
from fastapi import Request
from starlette.responses import Response

from relight.errors import PlanMoved, RelightError, StoreUnavailable, UsageError
from relight.history.documents import encoded, plan_document
from relight.journal.resume_plan import HASH_CHARS, naming_hash
from relight.journal.retention import days_text
from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.server.http.guard import body_digest_of, principal_of
from relight.server.http.logs import LOG
from relight.server.http.refusals import KeyBusy, KeyReused, Stale, TooMany
from relight.server.settings import ServerSettings
from relight.server.state import ServerState
from relight.server.tokens import Principal
from relight.telemetry.spans import span
from relight.values.tombstone import Tombstone

_MAX_KEY_LENGTH: Final = 200
MAX_CONCURRENT_ACTIONS: Final = 24
"""fewer than the server has threads: a start or stop waits for a process, and reads must not wait for it"""
_ETAG: Final = re.compile(rf"(?:([0-9a-f]{{{2 * HASH_CHARS}}})\.)?[0-9a-f]{{32}}(?:-[a-z]+)?")
"""an ETag of a response: version, digest, coding"""
_PLAN: Final = re.compile(rf"[0-9a-f]{{{HASH_CHARS}}}")
_FREE_TEXT: Final = frozenset({"prompt", "text", "result", "edit"})
"""request members of which the audit log has the length only; the journal has the text"""


class ActionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb returns: the response, and what the audit log needs."""

    document: Any
    status: int = 200
    session: str | None = None
    """id of the session that was changed or created"""
    undo: str | None = None
    """CLI command that reverts or continues it"""
    replay_document: Any = None
    """stored under the idempotency key instead of `document`, where that holds a secret"""
    replayed: bool = False
    """this is the stored response of an earlier request under the same key"""


Change = Callable[[Relight], ActionResult]
"""a verb; its argument is the library, pinned to the plan hash if the client sent one"""


def version_of(rl: Relight, ref: str) -> str:
    """What an ETag of a session or checkpoint has besides the digest of the response: the state that changes with
    `If-Match` require. The digest alone would change with every second that passes."""
    info, plan = rl.sessions.get(ref), rl.runs.plan_hash(ref)
    return plan and plan + naming_hash(info.name, info.labels)


def _location(body: bytes) -> str | None:
    """The path of what a request created, by its response: also of one that is replayed."""
    document = msgspec.json.decode(body)
    session = document.get("session", document)
    if isinstance(session, dict) and "id" in session:
        return f"/api/sessions/{session['id']}"
    if (name := document.get("name")) is not None:
        return f"/api/{'tokens' if 'token' in document else 'push'}/{quote(name, safe='')}"
    return None


def _refuse_busy() -> ActionResult:
    raise TooMany(f"{MAX_CONCURRENT_ACTIONS} changes are running already", hints=["retry in a moment"])


class ActionRunner:
    """Runs changes, at most MAX_CONCURRENT_ACTIONS at a time, with audit entry and idempotency key. Thread-safe."""

    def __init__(self, rl: Relight, state: ServerState, settings: ServerSettings, clock: Clock) -> None:
        self._rl, self._state, self._settings, self._clock = rl, state, settings, clock
        self._run = secrets.token_hex(8)
        self._state.set_meta("actions_kept", str(settings.max_actions))
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_ACTIONS)

    def answer(
        self,
        request: Request,
        verb: str,
        ref: str | None,
        do: Change,
        *,
        asked: Mapping[str, Any] | None = None,
        why: str | None = None,
    ) -> Response:
        """Run a change for an API route: plan hash and key from the headers, the response as JSON."""
        done = self.run(
            principal_of(request),
            verb,
            ref,
            do,
            asked=asked or {},
            why=why,
            plan_hash=request.headers.get("if-match"),
            key=request.headers.get("idempotency-key"),
            route=f"{request.method} {request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
            f"\n{body_digest_of(request)}",
        )
        headers = {"Idempotent-Replayed": "true"} if done.replayed else {}
        body = done.document if isinstance(done.document, bytes) else encoded(done.document)
        if done.status in (201, 202) and (made := _location(body)) is not None:
            headers["Location"] = made
        return Response(body, status_code=done.status, media_type="application/json", headers=headers)

    def run(
        self,
        who: Principal,
        verb: str,
        ref: str | None,
        do: Change,
        *,
        asked: Mapping[str, Any],
        why: str | None = None,
        plan_hash: str | None = None,
        key: str | None = None,
        route: str = "",
    ) -> ActionResult:
        """Run a change, once per `key`. PlanMoved if `plan_hash` is not the hash of the session's plan any more."""
        # Refused, not queued: each waiting change would hold one of the server's threads.
        if not self._slots.acquire(blocking=False):
            return self._audited(who, verb, ref, _refuse_busy, asked, why)
        try:
            return self._run_claimed(who, verb, ref, do, asked, why, plan_hash, key, route)
        finally:
            self._slots.release()

    def _run_claimed(
        self,
        who: Principal,
        verb: str,
        ref: str | None,
        do: Change,
        asked: Mapping[str, Any],
        why: str | None,
        plan_hash: str | None,
        key: str | None,
        route: str,
    ) -> ActionResult:
        row = self._claim_key(who, key, route, asked) if key is not None else None
        if isinstance(row, ActionResult):
            return row
        try:
            done = self._audited(who, verb, ref, lambda: self._pinned(ref, plan_hash, do), asked, why)
        except StoreUnavailable:
            # The commit may or may not have reached the store. The key stays claimed by no run, which is answered
            # like a claim of a server that died: outcome unknown. Freeing it would let a retry do the change twice.
            if row is not None:
                self._record("UPDATE replies SET run = '' WHERE key = ?", (row,))
            raise
        except BaseException:
            # Every other error means that nothing was changed: the client may retry under the same key.
            if row is not None:
                self._record("DELETE FROM replies WHERE key = ?", (row,))
            raise
        if row is not None:
            body = encoded(done.document if done.replay_document is None else done.replay_document)
            self._record("UPDATE replies SET status = ?, body = ? WHERE key = ?", (done.status, body, row))
        return done

    def _record(self, statement: str, values: Sequence[Any]) -> None:
        """Write an outcome to the server's file. A failure is logged only: the change itself has its outcome already,
        and the client gets that one."""
        try:
            self._state.rows(statement, values)
        except StoreUnavailable as error:
            LOG.error("outcome not recorded", extra={"code": error.code, "said": str(error)[:200]})

    # -- the plan ---------------------------------------------------------------------------------------------------

    def _pinned(self, ref: str | None, plan_hash: str | None, do: Change) -> ActionResult:
        """Call the verb with the library pinned to the plan hash (compared again inside the change's transaction)."""
        tags = [
            one.strip().removeprefix("W/").strip('"')
            for one in (plan_hash if plan_hash is not None else "*").split(",")
        ]
        if "*" in tags:
            return do(self._rl)
        if ref is None:
            raise UsageError(
                "If-Match belongs to a change of one session, and this is another change",
                hints=["leave it out; of several sessions, the body has the plan of each as `plans`"],
            )
        given = tags[0] if len(tags) == 1 else self._current(ref, tags)
        is_plan, etag = _PLAN.fullmatch(given), _ETAG.fullmatch(given)
        try:
            return do(self._rl.pinned(ref, self._plan_of(ref, etag[1] or "") if etag is not None else given))
        except PlanMoved as moved:
            plan = plan_document(self._rl.runs.plan(ref))
            if not is_plan:
                stale = Stale(f"{ref}: it changed since the response with this ETag; nothing was done")
                stale.hints = ("GET it again, decide, and send the new ETag",)
                stale.plan = plan  # type: ignore[attr-defined]
                raise stale from None
            moved.plan = plan  # type: ignore[attr-defined]
            raise

    def _current(self, ref: str, tags: Sequence[str]) -> str:
        """Of several ETags, one that is of the present state; the first if there is none."""
        found = (one for one in tags if (etag := _ETAG.fullmatch(one)) is not None and etag[1])
        known = {version_of(self._rl, one) for one in {ref, ref.partition("@")[0]}}
        return next((one for one in found if one.partition(".")[0] in known), tags[0])

    def _plan_of(self, ref: str, version: str) -> str:
        """The plan hash that an ETag's version stands for, in a change of a checkpoint too: the ETag may be that of
        its session."""
        session = ref.partition("@")[0]
        return version_of(self._rl, ref) if session != ref and version == version_of(self._rl, session) else version

    # -- the key ----------------------------------------------------------------------------------------------------

    def _claim_key(self, who: Principal, key: str, route: str, asked: Mapping[str, Any]) -> str | ActionResult:
        """Claim the key and return its row, or the stored response. KeyReused, KeyBusy."""
        if not 0 < len(key) <= _MAX_KEY_LENGTH or not key.isprintable() or not key.isascii():
            raise UsageError(f"an idempotency key has 1 to {_MAX_KEY_LENGTH} printable ASCII characters")
        row = sha256(f"{who.name}\n{key}".encode()).hexdigest()
        digest = sha256(route.encode() + b"\n" + encoded(dict(asked))).hexdigest()
        with self._state.transaction():
            found = self._state.rows("SELECT digest, run, status, body FROM replies WHERE key = ?", (row,))
            if not found:
                values = (row, digest, self._run, self._clock.now_us())
                self._state.rows("INSERT INTO replies (key, digest, run, made_us) VALUES (?, ?, ?, ?)", values)
                return row
        before, run, status, body = found[0]
        if before != digest:
            raise KeyReused("this idempotency key was used for another request", hints=["use a new key"])
        if status is None:
            # A claim without a response by another run of a server: that one died, or lost its store, in the middle.
            lost = run != self._run
            what = "outcome unknown: the server or its store died during" if lost else "still running:"
            hints = ["check the session, then use a new key"] if lost else ["retry in a moment"]
            raise KeyBusy(f"{what} the request under this idempotency key", hints=hints)
        return ActionResult(document=body, status=status, replayed=True)

    def prune(self) -> None:
        """Delete expired responses, and the oldest audit entries beyond the limit."""
        before = self._clock.now_us() - round(self._settings.replies_days * 86_400e6)
        self._state.rows("DELETE FROM replies WHERE made_us < ?", (before,))
        self._state.rows(
            "DELETE FROM actions WHERE id <= (SELECT max(id) FROM actions) - ?", (self._settings.max_actions,)
        )

    # -- the audit log ----------------------------------------------------------------------------------------------

    def _audited(
        self,
        who: Principal,
        verb: str,
        ref: str | None,
        do: Callable[[], ActionResult],
        asked: Mapping[str, Any],
        why: str | None,
    ) -> ActionResult:
        """Run between "begun" and an outcome in the audit log: done, refused, or unknown if the store failed."""
        before = self._summary(ref)
        entry = self.begin_entry(who, verb, before, asked=asked, why=why)
        fields = {"verb": verb, "who": who.name, "session": (before or {}).get("id")}
        try:
            with span(verb, {"relight.session": str(fields["session"] or "")}):
                done = do()
        except BaseException as error:
            code = error.code if isinstance(error, RelightError) else type(error).__name__
            outcome = "unknown" if isinstance(error, StoreUnavailable) else "refused"
            self._record("UPDATE actions SET outcome = ? WHERE id = ?", (f"{outcome}: {code}", entry))
            LOG.warning(outcome, extra=fields | {"code": code})
            raise
        after = self._summary(done.session)
        self._record(
            "UPDATE actions SET outcome = 'done', after = ?, undo = ? WHERE id = ?",
            (json.dumps(after) if after is not None else None, done.undo, entry),
        )
        LOG.info("did", extra=fields | {"session": done.session or fields["session"], "seq": (after or {}).get("seq")})
        return done

    def begin_entry(
        self, who: Principal, verb: str, before: Mapping[str, Any] | None, *, asked: Mapping[str, Any], why: str | None
    ) -> int:
        """Write an audit entry with the outcome "begun"; returns its id."""
        texts = {
            name: f"({len(str(value))} characters)" for name, value in asked.items() if name in _FREE_TEXT and value
        }
        given = {name: value for name, value in asked.items() if value not in (None, [], {}, False)} | texts
        values = (
            self._clock.now_us(),
            who.name,
            who.scope,
            verb,
            before["id"] if before is not None else None,
            before["name"] if before is not None else None,
            why,
            json.dumps(given, default=str),
            json.dumps(before) if before is not None else None,
        )
        columns = "at_us, who, scope, verb, session, name, why, asked, before, outcome"
        marks = ", ".join("?" * len(values))
        rows = self._state.rows(f"INSERT INTO actions ({columns}) VALUES ({marks}, 'begun') RETURNING id", values)
        return int(rows[0][0])

    def record_swept(self, session: str, name: str | None, removal: Tombstone) -> None:
        """Write the audit entry of a session that a retention policy removed, unless there is one already."""
        days = days_text(removal.finished_days)
        with self._state.transaction():
            if self._state.rows("SELECT 1 FROM actions WHERE verb = 'sweep' AND session = ?", (session,)):
                return
            self._state.rows(
                "INSERT INTO actions (at_us, who, scope, verb, session, name, why, asked, outcome)"
                " VALUES (?, ?, 'policy', 'sweep', ?, ?, ?, ?, 'done')",
                (
                    removal.at_us,
                    removal.by,
                    session,
                    name if name != session else None,
                    f"retention policy: finished sessions are removed after {days}",
                    json.dumps({"retention": days}),
                ),
            )

    def _summary(self, ref: str | None) -> dict[str, Any] | None:
        """The fields of a session that an audit entry records before and after; None if it cannot be read."""
        if ref is None:
            return None
        try:
            info = self._rl.sessions.get(ref)
        except RelightError:
            return None
        return {
            "id": info.id,
            "name": info.name,
            "status": info.status,
            "head": info.head,
            "seq": info.seq,
            "attempt": info.attempt,
            "evidence": info.evidence,
        }
