"""Every change that comes in over HTTP: the plan's hash, the idempotency key, the audit log, then the verb itself.

    key known?  ->  written down as begun  ->  plan still as shown: done  ->  written down what became of it

Killed after "begun": the entry stays and says so, and the key answers that nobody knows, so that nothing is done twice.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from fastapi import Request
from starlette.responses import Response

from relight.errors import PlanMoved, RelightError, StoreUnavailable, UsageError
from relight.history.documents import encoded, plan_document
from relight.journal.retention import days_text
from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.server.http.guard import asked_of, principal_of
from relight.server.http.logs import LOG
from relight.server.http.refusals import KeyBusy, KeyReused, TooMany
from relight.server.http.tracing import span
from relight.server.settings import ServerSettings
from relight.server.state import ServerState
from relight.server.tokens import Principal
from relight.values.tombstone import Tombstone

_KEY_LENGTH: Final = 200
_AT_ONCE: Final = 24
"""changes; a start or a stop waits for a process, and whoever only looks must not wait for them"""
_WORDS: Final = frozenset({"prompt", "text", "result"})
"""what somebody said: the log keeps how long it was, the journal what it was"""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb answers."""

    document: Any
    status: int = 200
    session: str | None = None
    """the one that was changed or made"""
    undo: str | None = None
    """a command that takes it back, or goes on from it"""
    kept: Any = None
    """what is stored under an idempotency key instead, where the document holds a secret"""
    replayed: bool = False


Change = Callable[[Relight], Done]
"""a verb; it is given the library, with the session as it was shown where that was said"""


def _no_room() -> Done:
    raise TooMany(f"{_AT_ONCE} changes are at work already", hints=["ask again in a moment"])


class ActionRunner:
    """Runs changes, one at a time each, and remembers them."""

    def __init__(self, rl: Relight, state: ServerState, settings: ServerSettings, clock: Clock) -> None:
        self._rl, self._state, self._settings, self._clock = rl, state, settings, clock
        self._run = secrets.token_hex(8)
        self._state.remember("actions_kept", str(settings.most_actions))
        self._room = threading.BoundedSemaphore(_AT_ONCE)

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
        """As an API route does it: headers in, JSON out."""
        done = self.act(
            principal_of(request),
            verb,
            ref,
            do,
            asked=asked or {},
            why=why,
            shown=request.headers.get("if-match"),
            key=request.headers.get("idempotency-key"),
            route=f"{request.method} {request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
            f"\n{asked_of(request)}",
        )
        headers = {"Idempotent-Replayed": "true"} if done.replayed else {}
        body = done.document if isinstance(done.document, bytes) else encoded(done.document)
        return Response(body, status_code=done.status, media_type="application/json", headers=headers)

    def act(
        self,
        who: Principal,
        verb: str,
        ref: str | None,
        do: Change,
        *,
        asked: Mapping[str, Any],
        why: str | None = None,
        shown: str | None = None,
        key: str | None = None,
        route: str = "",
    ) -> Done:
        """Do it once. `shown`: the hash of the plan that the caller saw; `key`: the same request again is not done."""
        if not self._room.acquire(blocking=False):
            return self._recorded(who, verb, ref, _no_room, asked, why)
        try:
            return self._act(who, verb, ref, do, asked, why, shown, key, route)
        finally:
            self._room.release()

    def _act(
        self,
        who: Principal,
        verb: str,
        ref: str | None,
        do: Change,
        asked: Mapping[str, Any],
        why: str | None,
        shown: str | None,
        key: str | None,
        route: str,
    ) -> Done:
        kept = self._claim_key(who, key, route, asked) if key is not None else None
        if isinstance(kept, Done):
            return kept
        try:
            done = self._recorded(who, verb, ref, lambda: self._as_shown(ref, shown, do), asked, why)
        except StoreUnavailable:
            if kept is not None:  # nobody knows whether it was done, and the key says so from now on
                self._write_down("UPDATE replies SET run = '' WHERE key = ?", (kept,))
            raise
        except BaseException:
            if kept is not None:
                self._write_down("DELETE FROM replies WHERE key = ?", (kept,))
            raise
        if kept is not None:
            body = encoded(done.document if done.kept is None else done.kept)
            self._write_down("UPDATE replies SET status = ?, body = ? WHERE key = ?", (done.status, body, kept))
        return done

    def _write_down(self, statement: str, values: Sequence[Any]) -> None:
        """What came of a change. Where that fails it is answered as it is nevertheless: it was done, or was not."""
        try:
            self._state.rows(statement, values)
        except StoreUnavailable as error:
            LOG.error("not written down", extra={"code": error.code, "said": str(error)[:200]})

    # -- the plan ---------------------------------------------------------------------------------------------------

    def _as_shown(self, ref: str | None, shown: str | None, do: Change) -> Done:
        """The comparison is made again in the change's own transaction: what moved in between is not acted on."""
        given = shown.strip().removeprefix("W/").strip('"') if shown is not None else "*"
        if ref is None or given == "*":
            return do(self._rl)
        try:
            return do(self._rl.as_shown(ref, given))
        except PlanMoved as moved:
            moved.plan = plan_document(self._rl.can_resume(ref))  # type: ignore[attr-defined]
            raise

    # -- the key ----------------------------------------------------------------------------------------------------

    def _claim_key(self, who: Principal, key: str, route: str, asked: Mapping[str, Any]) -> str | Done:
        """The row that stands for it, or what was answered."""
        if not 0 < len(key) <= _KEY_LENGTH or not key.isprintable() or not key.isascii():
            raise UsageError(f"an idempotency key has 1 to {_KEY_LENGTH} printable ASCII characters")
        row = sha256(f"{who.name}\n{key}".encode()).hexdigest()
        digest = sha256(route.encode() + b"\n" + encoded(dict(asked))).hexdigest()
        with self._state.together():
            found = self._state.rows("SELECT digest, run, status, body FROM replies WHERE key = ?", (row,))
            if not found:
                values = (row, digest, self._run, self._clock.now_us())
                self._state.rows("INSERT INTO replies (key, digest, run, made_us) VALUES (?, ?, ?, ?)", values)
                return row
        before, run, status, body = found[0]
        if before != digest:
            raise KeyReused("this idempotency key was used for another request", hints=["use a new key"])
        if status is None:
            lost = "the server, or its store, died at work; nobody knows how far it came" if run != self._run else ""
            hints = ["look at the session, then use a new key"] if lost else ["ask again in a moment"]
            raise KeyBusy(lost or "the request under this key is still at work", hints=hints)
        return Done(document=body, status=status, replayed=True)

    def prune(self) -> None:
        """Old answers and the oldest audit entries go."""
        before = self._clock.now_us() - round(self._settings.replies_days * 86_400e6)
        self._state.rows("DELETE FROM replies WHERE made_us < ?", (before,))
        self._state.rows(
            "DELETE FROM actions WHERE id <= (SELECT max(id) FROM actions) - ?", (self._settings.most_actions,)
        )

    # -- the audit log ----------------------------------------------------------------------------------------------

    def _recorded(
        self,
        who: Principal,
        verb: str,
        ref: str | None,
        do: Callable[[], Done],
        asked: Mapping[str, Any],
        why: str | None,
    ) -> Done:
        before = self._look(ref)
        entry = self.note(who, verb, before, asked=asked, why=why)
        said = {"verb": verb, "who": who.name, "session": (before or {}).get("id")}
        try:
            with span(verb, {"relight.session": str(said["session"] or "")}):
                done = do()
        except BaseException as error:
            code = error.code if isinstance(error, RelightError) else type(error).__name__
            word = "unknown" if isinstance(error, StoreUnavailable) else "refused"
            self._write_down("UPDATE actions SET outcome = ? WHERE id = ?", (f"{word}: {code}", entry))
            LOG.warning(word, extra=said | {"code": code})
            raise
        after = self._look(done.session)
        self._write_down(
            "UPDATE actions SET outcome = 'done', after = ?, undo = ? WHERE id = ?",
            (json.dumps(after) if after is not None else None, done.undo, entry),
        )
        LOG.info("did", extra=said | {"session": done.session or said["session"], "seq": (after or {}).get("seq")})
        return done

    def note(
        self, who: Principal, verb: str, before: Mapping[str, Any] | None, *, asked: Mapping[str, Any], why: str | None
    ) -> int:
        """Begin an entry of the audit log; its number."""
        spoken = {name: f"({len(str(value))} characters)" for name, value in asked.items() if name in _WORDS and value}
        told = {name: value for name, value in asked.items() if value not in (None, [], {}, False)} | spoken
        values = (
            self._clock.now_us(),
            who.name,
            who.scope,
            verb,
            before["id"] if before is not None else None,
            before["name"] if before is not None else None,
            why,
            json.dumps(told, default=str),
            json.dumps(before) if before is not None else None,
        )
        columns = "at_us, who, scope, verb, session, name, why, asked, before, outcome"
        marks = ", ".join("?" * len(values))
        rows = self._state.rows(f"INSERT INTO actions ({columns}) VALUES ({marks}, 'begun') RETURNING id", values)
        return int(rows[0][0])

    def note_swept(self, session: str, name: str | None, removal: Tombstone) -> None:
        """An entry for a session that a retention policy removed; once, however many look."""
        days = days_text(removal.finished_days)
        with self._state.together():
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
                    f"the retention policy: finished sessions go {days} after their end",
                    json.dumps({"retention": days}),
                ),
            )

    def _look(self, ref: str | None) -> dict[str, Any] | None:
        """A session in a line of the log."""
        if ref is None:
            return None
        try:
            info = self._rl.get(ref)
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
