"""Beginning a session and its first step in one transaction, or not at all.

A store with one session more, which only this process sees. Everything that works with a session works with it; the
first commit writes the session and the step together. Until then a death leaves nothing of it.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from relight.journal.commit import plan_commit
from relight.ports import faults
from relight.ports.store import Record, Store
from relight.sessions import names
from relight.sessions.context import Context
from relight.values.pending import Pending
from relight.values.session import Identity
from relight.values.step import Committed, Draft


def with_pending(context: Context, pending: Pending) -> Context:
    """The same seams, with a session that begins with the first step that is committed to it."""
    return msgspec.structs.replace(context, store=cast(Store, PendingStore(context, pending)))


class PendingStore:
    """Passes everything on, but for one session until it begins."""

    def __init__(self, context: Context, pending: Pending) -> None:
        self._store, self._context = context.store, context
        self._record = Record(identity=pending.identity, head=pending.head)
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def find(self, session: str) -> Record | None:
        """By full id."""
        return self._record if self._is_mine(session) else self._store.find(session)

    def find_named(self, name: str) -> Record | None:
        """By exact name."""
        mine = not self._begun and name == self._record.identity.name
        return self._record if mine else self._store.find_named(name)

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        """By the beginning of the id."""
        found = self._store.find_prefixed(prefix, limit)
        mine = not self._begun and self._record.identity.id.startswith(prefix)
        return [self._record, *found][:limit] if mine else found

    def update(self, identity: Identity) -> None:
        """Replace what a session is."""
        if self._is_mine(identity.id):
            self._record = Record(identity=identity, head=self._record.head)
        else:
            self._store.update(identity)

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step; the first one of the pending session begins it."""
        if not self._is_mine(session):
            return self._store.commit(session, draft)
        identity, head = self._record.identity, self._record.head
        assert head is not None
        planned = plan_commit(head, draft, at_us=self._context.clock.now_us(), now=self._store.instant())
        labels = [(session, planned.step.seq, draft.label)] if draft.label is not None else []
        faults.point("commit.enter")
        names.release_archived(self._context, identity.name)
        self._store.import_sessions(
            [Record(identity=identity, head=planned.head)], [(planned.step, list(draft.snapshots))], labels
        )
        self._begun = True
        faults.point("session.created")
        faults.point("commit.committed")
        return planned

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        """What became of a commit whose outcome is not known: where it got through, the session exists."""
        if self._is_mine(session):
            if self._store.find(session) is None:
                return None
            self._begun = True
        return self._store.find_commit(session, key, after=after)

    def _is_mine(self, session: str) -> bool:
        return not self._begun and session == self._record.identity.id
