"""Callbacks: a signed POST when a session completes, fails, halts or waits. Recorded first, retried, never lost.

    wanted (row)  ->  the journal says so: delivery and cursor, one commit  ->  POST  ->  delivered, later, given up

The journal is the truth: a server that was down finds what happened meanwhile by the seq it had reached. A kill between
POST and its row means that the same delivery is made again under the same number, which the receiver can tell.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import islice
from logging import INFO, WARNING
from typing import Any, Final

import msgspec

from relight.errors import Corrupt, NotFound, RelightError, UsageError
from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.server.http.logs import LOG
from relight.server.jobs.safe_post import Unreachable, checked, post
from relight.server.settings import ServerSettings
from relight.server.state import ServerState
from relight.server.tokens import read_or_create
from relight.system.machine import redactor
from relight.values.policy import Retry

FIRES: Final = frozenset({"completed", "failed", "halted", "waiting"})
LAST: Final = frozenset({"completed", "failed", "halted"})
SECRET_FILE: Final = "callback-secret"
_AT_ONCE: Final = 4
_HELD_SECONDS: Final = 5.0
_PAGE: Final = 1000
_MAX_WANTED: Final = 10_000
_KEPT_DELIVERIES: Final = 10_000


class Callbacks:
    """Who wants to be told, and what was sent."""

    def __init__(self, rl: Relight, state: ServerState, settings: ServerSettings, clock: Clock) -> None:
        self._rl, self._state, self._settings, self._clock = rl, state, settings, clock
        self._retry = Retry(
            attempts=settings.callback_tries, first_seconds=settings.callback_first_seconds, max_seconds=3600.0
        )
        self._secret: bytes | None = None
        self._added = 0
        self._seen: object = None
        """how many were added, and the store's state, when all of it had been looked at"""

    def check(self, url: str) -> None:
        """UsageError for an address that would never be called, or that holds a secret: it is written down."""
        if redactor().text(url) != url:
            hints = ["let the receiver check Relight-Signature: every delivery is signed with the server's own key"]
            raise UsageError("the address of a callback holds a secret, and is kept until it was called", hints=hints)
        checked(url, self._settings.callback_allow)

    def add(self, session: str, url: str, *, after_seq: int) -> None:
        """Tell this address what becomes of a session after a seq. Durable on return."""
        now = self._clock.now_us()
        self._state.rows(
            "INSERT INTO callbacks (session, url, after_seq, made_us) VALUES (?, ?, ?, ?)",
            (session, url, after_seq, now),
        )
        self._added += 1  # it may have happened already

    def secret(self) -> bytes:
        """What deliveries are signed with; made at first use, for the user's eyes alone."""
        if self._secret is None:
            self._secret = read_or_create(self._state.directory / SECRET_FILE, secrets.token_hex(32)).encode()
        return self._secret

    # -- what happened ------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Turn what the journal says about wanted sessions into deliveries."""
        added = self._added  # before the rows: who comes between them is looked at in the next round
        wanted = self._state.rows("SELECT id, session, url, after_seq FROM callbacks LIMIT ?", (_MAX_WANTED,))
        if not wanted:
            return
        now = (added, self._rl.store.changed())
        if now == self._seen:
            return
        looked = [self._looked(row) for row in wanted]
        if all(looked):
            self._seen = now

    def _looked(self, row: Sequence[Any]) -> bool:
        """Look at one; False where there is more of it than one look reads."""
        try:
            return self._look(*row)
        except NotFound:
            self._state.rows("DELETE FROM callbacks WHERE id = ?", (row[0],))
        except Corrupt as error:  # it can be mended, and hinders nobody else
            LOG.warning("callback", extra={"session": row[1], "code": error.code, "said": str(error)[:200]})
        return True

    def _look(self, number: int, session: str, url: str, after: int) -> bool:
        found, newest, over, read = [], after, False, 0
        for event in islice(self._rl.steps(session, after=after), _PAGE):
            newest, read = event.seq, read + 1
            change = event.status
            if change is None or change["status"] not in FIRES or event.kind == "rewind":
                continue  # an undo brings a status back; it did not happen again
            found.append(
                {
                    "session": session,
                    "status": change["status"],
                    "reason": change["reason"],
                    "seq": event.seq,
                    "attempt": event.attempt,
                    "at": event.at,
                }
            )
            if change["status"] in LAST:
                over = True
                break
        whole = over or read < _PAGE
        if newest == after:
            return whole
        with self._state.transaction():
            moved = (newest, number, after)
            if not self._state.run("UPDATE callbacks SET after_seq = ? WHERE id = ? AND after_seq = ?", moved):
                return whole  # another server of this store saw it first
            for payload in found:
                self._queue(session, url, payload)
            if over:
                self._state.rows("DELETE FROM callbacks WHERE id = ?", (number,))
        return whole

    def _queue(self, session: str, url: str, payload: dict[str, Any]) -> None:
        now = self._clock.now_us()
        self._state.rows(
            "INSERT INTO deliveries (session, url, body, tries, next_us, made_us, state)"
            " VALUES (?, ?, ?, 0, ?, ?, 'due')",
            (session, url, msgspec.json.encode(redactor().value(payload)), now, now),
        )

    # -- telling ------------------------------------------------------------------------------------------------------

    def deliver(self) -> int:
        """Try what is due; how many were tried."""
        due = self._state.rows(
            "SELECT id, session, url, body, tries, next_us FROM deliveries"
            " WHERE next_us <= ? ORDER BY next_us LIMIT 64",
            (self._clock.now_us(),),
        )
        if not due:
            return 0
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="relight-callback") as pool:
            list(pool.map(self._try, due))
        self._state.rows(
            "DELETE FROM deliveries WHERE next_us IS NULL AND id <= (SELECT max(id) FROM deliveries) - ?",
            (_KEPT_DELIVERIES,),
        )
        return len(due)

    def _try(self, row: Sequence[Any]) -> None:
        number, session, url, body, tries, due_us = row
        said, fine = "", False
        held_us = self._clock.now_us() + round((self._settings.callback_seconds + _HELD_SECONDS) * 1e6)
        if not self._state.run(
            "UPDATE deliveries SET next_us = ? WHERE id = ? AND next_us = ?", (held_us, number, due_us)
        ):
            return  # another server of this store is at it; if that dies, it is due again
        try:
            status = post(
                url,
                body,
                self._headers(number, body),
                allow=self._settings.callback_allow,
                seconds=self._settings.callback_seconds,
            )
            said, fine = f"answered {status}", 200 <= status < 300
        except (Unreachable, RelightError) as error:
            said = str(error)
        state, again = "delivered" if fine else "due", None
        if not fine and tries + 1 >= self._retry.attempts:
            state = "given up"
        elif not fine:
            seconds = self._retry.delay_seconds(tries + 1, secrets.randbelow(1000) / 1000)
            again = self._clock.now_us() + round(seconds * 1e6)
        self._state.rows(
            "UPDATE deliveries SET tries = ?, next_us = ?, state = ?, said = ? WHERE id = ?",
            (tries + 1, again, state, said[:300], number),
        )
        told = {"session": session, "delivery": number, "state": state, "said": said[:100], "tries": tries + 1}
        LOG.log(INFO if fine else WARNING, "callback", extra=told)

    def _headers(self, number: int, body: bytes) -> dict[str, str]:
        at = str(self._clock.now_us() // 1_000_000)
        return {
            "Content-Type": "application/json",
            "User-Agent": "relight",
            "Relight-Delivery": str(number),
            "Relight-Signature": f"t={at},v1={signature(self.secret(), at, body)}",
        }

    def deliveries(self, session: str, *, most: int = 100) -> list[dict[str, Any]]:
        """What was sent for a session, the newest first."""
        rows = self._state.rows(
            "SELECT id, url, tries, state, said, body FROM deliveries WHERE session = ? ORDER BY id DESC LIMIT ?",
            (session, most),
        )
        return [
            {
                "id": one[0],
                "url": one[1],
                "tries": one[2],
                "state": one[3],
                "said": one[4],
                "body": msgspec.json.decode(one[5]),
            }
            for one in rows
        ]


def signature(secret: bytes, at: str, body: bytes) -> str:
    """Over the time and the body, so that neither can be changed nor an old one sent again unnoticed."""
    return hmac.new(secret, at.encode() + b"." + body, sha256).hexdigest()
