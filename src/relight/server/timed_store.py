"""Proxies that time every commit and every capture of this process."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, cast

import msgspec

from relight.errors import StoreError
from relight.library.facade import Relight, context_of
from relight.ports.store import Store
from relight.ports.workspace import Workspaces
from relight.server.metrics import Metrics
from relight.telemetry.spans import span
from relight.values.step import Committed, Draft


class _Measured:
    """A store whose commits are timed; everything else is passed through."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, session: str, draft: Draft) -> Committed:
        began = time.perf_counter()
        try:
            committed = self._store.commit(session, draft)
        except StoreError as error:
            self._metrics.store_errors.labels(error.code).inc()
            raise
        self._metrics.saves.observe(time.perf_counter() - began)
        for one in draft.snapshots:
            self._metrics.snapshot_bytes.inc(one.stored_bytes)
        return committed


class _MeasuredWorkspaces:
    """Workspaces whose opened roots are timed; everything else is passed through."""

    def __init__(self, workspaces: Workspaces, metrics: Metrics) -> None:
        self._workspaces, self._metrics = workspaces, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workspaces, name)

    def open(self, *args: Any, **more: Any) -> Any:
        return _MeasuredRoot(self._workspaces.open(*args, **more), self._metrics)


class _MeasuredRoot:
    """A root whose captures are timed, the safety capture of `plan_restore` included."""

    def __init__(self, root: Any, metrics: Metrics) -> None:
        self._root, self._metrics = root, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._root, name)

    def snapshot(self) -> Any:
        with span("capture"), self._metrics.snapshots.time():
            return self._root.snapshot()

    def plan_restore(self, *args: Any, **more: Any) -> Any:
        with span("capture"), self._metrics.snapshots.time():
            return self._root.plan_restore(*args, **more)


def time_captures(rl: Relight, metrics: Metrics) -> Relight:
    """The same library with timed captures."""
    inner = context_of(rl)
    timed = cache(lambda: cast(Workspaces, _MeasuredWorkspaces(inner.workspaces(), metrics)))
    return Relight(msgspec.structs.replace(inner, workspaces=timed))


def time_commits(store: Store, metrics: Metrics) -> Store:
    """The same store with timed commits and counted errors."""
    return cast(Store, _Measured(store, metrics))
