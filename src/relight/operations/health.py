"""How a store is, as one value: for a program's own readiness check and for monitoring. Changes nothing."""

from __future__ import annotations

from typing import cast

import msgspec

from relight.history import attention
from relight.operations import retention
from relight.ports.search import IndexedStore
from relight.sessions.context import Context
from relight.values.policy import Policy
from relight.values.status import Status
from relight.values.store import StoreInfo


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """A store at a moment. Quick to read: damage is found by `rl.history.verify()`, which reads everything."""

    store: StoreInfo
    sessions: dict[Status, int]
    """by stored status"""
    needs_you: int
    """sessions that need a person"""
    file_bytes: int
    """disk usage of captured files"""
    unindexed: int | None
    """steps that are not in the index of words yet; None where there is no index"""
    retention: Policy

    @property
    def is_writable(self) -> bool:
        """Whether steps can be saved at present."""
        return not self.store.read_only


def check(context: Context) -> Health:
    """Read it. StoreUnavailable if the store does not answer."""
    store = context.store
    return Health(
        store=store.info,
        sessions=store.count_sessions(),
        needs_you=attention.needing(context, most=1).total,
        file_bytes=context.workspaces().size_bytes() if store.list_pools() else 0,
        unindexed=cast(IndexedStore, store).count_unindexed() if store.info.indexed else None,
        retention=retention.policy_of(context),
    )
