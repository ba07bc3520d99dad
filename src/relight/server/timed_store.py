"""A store and its workspaces with a watch beside them: every save and capture of this process is timed and traced."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, cast

import msgspec

from relight.errors import StoreError
from relight.library.facade import Relight
from relight.ports.store import Store
from relight.ports.workspace import Workspaces
from relight.server.http.tracing import span
from relight.server.metrics import Metrics
from relight.values.step import Committed, Draft


class _Measured:
    """Passes everything on; only `commit` is looked at."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step, timed; an error of the store is counted by its code."""
        began = time.perf_counter()
        with span("save", {"relight.session": session, "relight.kind": draft.kind}) as traced:
            try:
                committed = self._store.commit(session, draft)
            except StoreError as error:
                self._metrics.store_errors.labels(error.code).inc()
                raise
            traced.set("relight.seq", committed.step.seq)
        self._metrics.saves.observe(time.perf_counter() - began)
        for one in draft.snapshots:
            self._metrics.snapshot_bytes.inc(one.stored_bytes)
        return committed


class _MeasuredWorkspaces:
    """Passes everything on; roots that it opens are timed when they capture."""

    def __init__(self, workspaces: Workspaces, metrics: Metrics) -> None:
        self._workspaces, self._metrics = workspaces, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workspaces, name)

    def open(self, *args: Any, **more: Any) -> Any:
        """A root, watched."""
        return _MeasuredRoot(self._workspaces.open(*args, **more), self._metrics)


class _MeasuredRoot:
    """A capture of its own, and the safety capture with which a restore is planned."""

    def __init__(self, root: Any, metrics: Metrics) -> None:
        self._root, self._metrics = root, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._root, name)

    def snapshot(self) -> Any:
        """The files as they are."""
        with span("capture"), self._metrics.snapshots.time():
            return self._root.snapshot()

    def plan_restore(self, *args: Any, **more: Any) -> Any:
        """What a restore would do, on a capture of the files as they are."""
        with span("capture"), self._metrics.snapshots.time():
            return self._root.plan_restore(*args, **more)


def watched(rl: Relight, metrics: Metrics) -> Relight:
    """The same library, whose captures are timed."""
    inner = rl._context  # a door has no other way to put a watch beside a port
    timed = cache(lambda: cast(Workspaces, _MeasuredWorkspaces(inner.workspaces(), metrics)))
    return Relight(msgspec.structs.replace(inner, workspaces=timed))


def measured(store: Store, metrics: Metrics) -> Store:
    """The same store, watched."""
    return cast(Store, _Measured(store, metrics))
