"""Wakeup by Procrastinate jobs: fetches and closes jobs, and reads the queue rows themselves from time to time.

Jobs are only hints. The session of a lost job is found in the queue rows; a job that is delivered twice, or to a worker
that is suspended for an hour, leads to a claim that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import md5
from typing import Any, Final

import psycopg
from procrastinate.sql import queries

from relight.fleet.engines.procrastinate.schema import SQL, Connection, away, connect, install
from relight.journal.queues.order import first_rows, format_queue_key
from relight.ports.clock import Clock
from relight.ports.store import Store
from relight.ports.wakeup import Ticket
from relight.values.queues import QueueKey

LONGEST_SECONDS: Final = 1.0
"""longest time between fetches: a wake time may have come, or a notification may be lost"""
LOST_SECONDS: Final = 2.0
"""between reads of the queue rows, for sessions without a job"""
LEFT_SECONDS: Final = 10.0
"""a job fetched so long ago whose session is not at work was left by a dead worker"""
MAX_CLOSED: Final = 500
"""jobs closed per sweep"""
_DEAD_SECONDS: Final = 86_400.0
_TRIES: Final = 2


class ProcrastinateEngine:
    """Wakeup by jobs in the store's database. Not thread-safe: used by one worker's loop."""

    name = "procrastinate"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._connection: Connection | None = None
        self._worker: int | None = None
        self._polled_us = self._lost_us = 0
        self._postponed: dict[str, int] = {}
        """session to the instant at which it is offered again"""

    def prepare(self) -> None:
        with self._connected() as connection:
            install(connection)

    # -- taking -----------------------------------------------------------------------------------------------------

    def take(self, lines: Sequence[QueueKey], limit: int) -> list[Ticket]:
        self._polled_us = self._clock.instant().us
        by_name = {queue_name(line): line for line in lines}
        tickets: list[Ticket] = []
        with self._connected() as connection:
            while len(tickets) < limit:
                row = self._fetch(connection, list(by_name))
                if row is None:
                    break
                number, session, queue = row
                tickets.append(Ticket(session=session, line=by_name[queue], row=number))
        return tickets + self._without_row(lines, limit - len(tickets), {one.session for one in tickets})

    def _fetch(self, connection: Connection, names: list[str]) -> tuple[int, str, str] | None:
        for _ in range(_TRIES):
            worker = self._registered(connection)
            try:
                found = self._run(connection, "fetch_job", queues=names, worker_id=worker)
            except psycopg.errors.ForeignKeyViolation:
                # We were suspended so long that other workers pruned our registration: register again.
                self._worker = None
                continue
            if found is None or found["id"] is None:
                return None
            return int(found["id"]), str(found["args"].get("session", "")), str(found["queue_name"])
        return None

    def _without_row(self, lines: Sequence[QueueKey], limit: int, known: set[str]) -> list[Ticket]:
        """Tickets for the first sessions of the queues that have no job; read only every LOST_SECONDS."""
        now_us = self._clock.instant().us
        if limit < 1 or now_us - self._lost_us < LOST_SECONDS * 1e6:
            return []
        self._lost_us = now_us
        self._postponed = {one: until_us for one, until_us in self._postponed.items() if until_us > now_us}
        known |= set(self._postponed)
        asked = limit + len(known)
        rows = first_rows((row for line in lines for row in self._store.list_waiting(line, asked)), asked)
        return [Ticket(session=row.session, line=row.line) for row in rows if row.session not in known][:limit]

    def wait(self, seconds: float) -> bool:
        with self._connected() as connection:
            for _ in connection.notifies(timeout=seconds, stop_after=1):
                return True
        now_us = self._clock.instant().us
        if now_us - self._polled_us < LONGEST_SECONDS * 1e6:
            return False
        self._polled_us = now_us
        return True

    # -- closing ----------------------------------------------------------------------------------------------------

    def close_ticket(self, ticket: Ticket) -> None:
        if ticket.row is not None:
            with self._connected() as connection:
                self._close(connection, ticket.row)

    def _close(self, connection: Connection, row: int) -> bool:
        try:
            self._run(connection, "finish_job", job_id=row, status="succeeded", delete_job=True)
        except psycopg.errors.RaiseException:
            return False  # another worker has closed it
        return True

    def postpone(self, ticket: Ticket, seconds: float) -> None:
        self._postponed[ticket.session] = self._clock.instant().us + round(seconds * 1e6)
        with self._connected() as connection, connection.transaction():
            if ticket.row is not None:
                self._close(connection, ticket.row)
            connection.execute(SQL["offer_again"], (seconds, ticket.session.encode("utf-8", "surrogatepass")))

    def sweep(self, is_at_work: Callable[[str], bool]) -> int:
        with self._connected() as connection:
            worker = self._registered(connection)
            self._run(connection, "update_heartbeat", worker_id=worker)
            self._run(connection, "prune_stalled_workers", seconds_since_heartbeat=_DEAD_SECONDS)
            left = connection.execute(SQL["taken_by_others"], (worker, LEFT_SECONDS, MAX_CLOSED)).fetchall()
            return sum(self._close(connection, row) for row, session in left if not is_at_work(session))

    # -- the connection ---------------------------------------------------------------------------------------------

    def _registered(self, connection: Connection) -> int:
        if self._worker is None:
            found = self._run(connection, "register_worker")
            assert found is not None
            self._worker = int(found["worker_id"])
        return self._worker

    def _run(self, connection: Connection, query: str, **given: Any) -> dict[str, Any] | None:
        """Execute one of Procrastinate's own statements, with the search path set to its schema."""
        with connection.transaction():
            connection.execute(SQL["here"])
            cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
            cursor.execute(queries[query].encode(), given)
            return cursor.fetchone()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """The connection, reopened if it was lost. Errors become StoreUnavailable."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._store.url)
                self._connection.execute(SQL["listen"])
            yield self._connection
        except psycopg.Error as error:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            raise away(error) from None

    def close(self) -> None:
        if self._connection is not None and not self._connection.closed and self._worker is not None:
            with suppress(psycopg.Error):  # otherwise other workers prune the registration
                self._run(self._connection, "unregister_worker", worker_id=self._worker)
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def queue_name(line: QueueKey) -> str:
    """The Procrastinate queue of a queue key; must match the SQL function of the same name."""
    key = format_queue_key(line).encode("utf-8", "surrogatepass")
    return key.decode() if len(key) <= 40 else "h:" + md5(key, usedforsecurity=False).hexdigest()
