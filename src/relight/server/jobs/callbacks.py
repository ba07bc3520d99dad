"""Callbacks: a signed POST when a session completes, fails, halts or waits. At least once, with retries.

    subscription row  ->  journal scan: delivery rows and new cursor in one commit  ->  POST  ->  delivered or retried

Deliveries are derived from the journal: a server that was down continues from the seq it had reached. If it is killed
between a POST and the update of its row, the delivery is sent again with the same number, by which the receiver can
tell a duplicate.
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
from relight.system.environment_secrets import redactor
from relight.values.policy import Retry

FIRES: Final = frozenset({"completed", "failed", "halted", "waiting"})
LAST: Final = frozenset({"completed", "failed", "halted"})
SECRET_FILE: Final = "callback-secret"
_MAX_CONCURRENT_POSTS: Final = 4
_HELD_SECONDS: Final = 5.0
_PAGE: Final = 1000
_MAX_SUBSCRIPTIONS: Final = 10_000
_MAX_OLD_DELIVERIES: Final = 10_000


class Callbacks:
    """Subscriptions to sessions, and the deliveries made for them."""

    def __init__(self, rl: Relight, state: ServerState, settings: ServerSettings, clock: Clock) -> None:
        self._rl, self._state, self._settings, self._clock = rl, state, settings, clock
        self._retry = Retry(
            attempts=settings.callback_tries, first_seconds=settings.callback_first_seconds, max_seconds=3600.0
        )
        self._secret: bytes | None = None
        self._added = 0
        self._scanned: object = None
        """(subscriptions added, the store's change token) at the last complete scan"""

    def check(self, url: str) -> None:
        """UsageError for an address that is not allowed, or that holds a secret: it would be stored in clear."""
        if redactor().text(url) != url:
            hints = ["let the receiver check Relight-Signature: every delivery is signed with the server's own key"]
            raise UsageError("the callback address holds a secret, and would be stored in clear", hints=hints)
        checked(url, self._settings.callback_allow)

    def add(self, session: str, url: str, *, after_seq: int) -> None:
        """Subscribe an address to what happens to a session after a seq. Durable on return."""
        now = self._clock.now_us()
        self._state.rows(
            "INSERT INTO callbacks (session, url, after_seq, made_us) VALUES (?, ?, ?, ?)",
            (session, url, after_seq, now),
        )
        self._added += 1  # forces a scan: what it waits for may have happened already

    def secret(self) -> bytes:
        """The key that deliveries are signed with; created in a private file at first use."""
        if self._secret is None:
            self._secret = read_or_create(self._state.directory / SECRET_FILE, secrets.token_hex(32)).encode()
        return self._secret

    # -- scanning -----------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Create deliveries from what was committed to subscribed sessions since the last scan."""
        # Both tokens are read before what they stand for: a subscription or a step that arrives in between leaves
        # them outdated, and the next round scans again. Read afterwards, it would be missed.
        added = self._added
        rows = self._state.rows("SELECT id, session, url, after_seq FROM callbacks LIMIT ?", (_MAX_SUBSCRIPTIONS,))
        if not rows:
            return
        now = (added, self._rl.store.changed())
        if now == self._scanned:
            return
        complete = [self._scan_checked(row) for row in rows]
        if all(complete):
            self._scanned = now

    def _scan_checked(self, row: Sequence[Any]) -> bool:
        """Scan one subscription; False if more than one page of steps is left."""
        try:
            return self._scan_session(*row)
        except NotFound:
            self._state.rows("DELETE FROM callbacks WHERE id = ?", (row[0],))
        except Corrupt as error:  # it may be repaired later, and must not stop the other subscriptions
            LOG.warning("callback", extra={"session": row[1], "code": error.code, "said": str(error)[:200]})
        return True

    def _scan_session(self, number: int, session: str, url: str, after: int) -> bool:
        found, newest, over, read = [], after, False, 0
        for event in islice(self._rl.history.events(session, after=after), _PAGE):
            newest, read = event.seq, read + 1
            change = event.status
            if change is None or change["status"] not in FIRES or event.kind == "rewind":
                continue  # a rewind restores an earlier status; it did not happen again
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
                return whole  # another server that shares this file has scanned it first
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

    # -- sending ------------------------------------------------------------------------------------------------------

    def deliver(self) -> int:
        """Try the deliveries that are due; their number."""
        due = self._state.rows(
            "SELECT id, session, url, body, tries, next_us FROM deliveries"
            " WHERE next_us <= ? ORDER BY next_us LIMIT 64",
            (self._clock.now_us(),),
        )
        if not due:
            return 0
        with ThreadPoolExecutor(_MAX_CONCURRENT_POSTS, thread_name_prefix="relight-callback") as pool:
            list(pool.map(self._try, due))
        self._state.rows(
            "DELETE FROM deliveries WHERE next_us IS NULL AND id <= (SELECT max(id) FROM deliveries) - ?",
            (_MAX_OLD_DELIVERIES,),
        )
        return len(due)

    def _try(self, row: Sequence[Any]) -> None:
        number, session, url, body, tries, due_us = row
        result, ok = "", False
        # Claim the delivery by moving its due time past our own timeout. The compare on next_us lets one server win;
        # if it dies during the POST, the delivery becomes due again by itself.
        held_us = self._clock.now_us() + round((self._settings.callback_seconds + _HELD_SECONDS) * 1e6)
        if not self._state.run(
            "UPDATE deliveries SET next_us = ? WHERE id = ? AND next_us = ?", (held_us, number, due_us)
        ):
            return
        try:
            status = post(
                url,
                body,
                self._headers(number, body),
                allow=self._settings.callback_allow,
                seconds=self._settings.callback_seconds,
            )
            result, ok = f"answered {status}", 200 <= status < 300
        except (Unreachable, RelightError) as error:
            result = str(error)
        state, next_us = "delivered" if ok else "due", None
        if not ok and tries + 1 >= self._retry.attempts:
            state = "given up"
        elif not ok:
            seconds = self._retry.delay_seconds(tries + 1, secrets.randbelow(1000) / 1000)
            next_us = self._clock.now_us() + round(seconds * 1e6)
        self._state.rows(
            "UPDATE deliveries SET tries = ?, next_us = ?, state = ?, said = ? WHERE id = ?",
            (tries + 1, next_us, state, result[:300], number),
        )
        fields = {"session": session, "delivery": number, "state": state, "said": result[:100], "tries": tries + 1}
        LOG.log(INFO if ok else WARNING, "callback", extra=fields)

    def _headers(self, number: int, body: bytes) -> dict[str, str]:
        at = str(self._clock.now_us() // 1_000_000)
        return {
            "Content-Type": "application/json",
            "User-Agent": "relight",
            "Relight-Delivery": str(number),
            "Relight-Signature": f"t={at},v1={signature(self.secret(), at, body)}",
        }

    def deliveries(self, session: str, *, limit: int = 100) -> list[dict[str, Any]]:
        """The deliveries of a session, newest first."""
        rows = self._state.rows(
            "SELECT id, url, tries, state, said, body FROM deliveries WHERE session = ? ORDER BY id DESC LIMIT ?",
            (session, limit),
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
    """HMAC over time and body: the receiver can detect a changed body and refuse an old delivery sent again."""
    return hmac.new(secret, at.encode() + b"." + body, sha256).hexdigest()
