"""Creating a session and its first step in one transaction.

`PendingStore` wraps a store and adds one session that only this process sees. Everything that works with a session
works with it; the first commit writes session and step together. Until then a crash leaves no trace of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from relight.journal.commit import plan_commit
from relight.ports import faults
from relight.ports.store import Record, SharingStore, Store
from relight.sessions import names
from relight.sessions.context import Context
from relight.sessions.redacting_store import sharing
from relight.values.session import Identity, Pending
from relight.values.step import Committed, Draft


def with_pending(context: Context, pending: Pending) -> Context:
    """The same context, with a session that is created by the first step committed to it."""
    return msgspec.structs.replace(context, store=cast(Store, PendingStore(context, pending)))


class PendingStore:
    """Delegates to the store, except for the one session that does not exist yet."""

    def __init__(self, context: Context, pending: Pending) -> None:
        self._store, self._context = context.store, context
        self._record = Record(identity=pending.identity, head=pending.head)
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def sharing(self) -> SharingStore | None:
        """The store's, once the session exists."""
        return sharing(self._store) if self._begun else None

    def find(self, session: str) -> Record | None:
        return self._record if self._is_mine(session) else self._store.find(session)

    def find_named(self, name: str) -> Record | None:
        mine = not self._begun and name == self._record.identity.name
        return self._record if mine else self._store.find_named(name)

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        found = self._store.find_prefixed(prefix, limit)
        mine = not self._begun and self._record.identity.id.startswith(prefix)
        return [self._record, *found][:limit] if mine else found

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        if not self._is_mine(session):
            return self._store.update(session, change)
        self._record = Record(identity=change(self._record.identity), head=self._record.head)
        return self._record.identity

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step; the first one of the pending session creates it."""
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
        """Outcome of a commit that may have been lost: if it got through, the session exists."""
        if self._is_mine(session):
            if self._store.find(session) is None:
                return None
            self._begun = True
        return self._store.find_commit(session, key, after=after)

    def _is_mine(self, session: str) -> bool:
        return not self._begun and session == self._record.identity.id


def with_change(context: Context, session: str, change: Callable[[Identity], Identity]) -> Context:
    """The same context, with an existing session as it will be once its next step is committed."""
    return msgspec.structs.replace(context, store=cast(Store, ChangedStore(context.store, session, change)))


class ChangedStore:
    """Delegates to the store, and shows one session with a change of its identity, which is written right after its
    next commit: a claim that is refused, and a crash before it, leave the session as it was."""

    def __init__(self, store: Store, session: str, change: Callable[[Identity], Identity]) -> None:
        self._store, self._session, self._change = store, session, change
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def find(self, session: str) -> Record | None:
        return self._shown(self._store.find(session))

    def find_named(self, name: str) -> Record | None:
        return self._shown(self._store.find_named(name))

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        return [one for one in map(self._shown, self._store.find_prefixed(prefix, limit)) if one is not None]

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step; after the first one of the session, the change of its identity."""
        made = self._store.commit(session, draft)
        self._write(session)
        return made

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        """Outcome of a commit that may have been lost."""
        made = self._store.find_commit(session, key, after=after)
        if made is not None:
            self._write(session)
        return made

    def _write(self, session: str) -> None:
        if self._is_mine(session):
            self._begun = True
            faults.point("session.handed_over")
            self._store.update(session, self._change)

    def _shown(self, record: Record | None) -> Record | None:
        if record is None or not self._is_mine(record.identity.id):
            return record
        return Record(identity=self._change(record.identity), head=record.head)

    def _is_mine(self, session: str) -> bool:
        return not self._begun and session == self._session
