"""Housekeeping rounds: reap children, send callbacks, sweep by the retention policy, audit removals, prune own state,
index what was committed.

One thread, one round every half second. A failure is logged and tried again in the next round.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Final

from relight.errors import RelightError
from relight.server.http.logs import LOG
from relight.server.service import Service

_ROUND_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 15.0
_NOTED: Final = "removals_noted"
_REMOVAL_ROUNDS: Final = 10
_SWEEP_ROUNDS: Final = 120
_PRUNE_ROUNDS: Final = 600
_INDEX_ROUNDS: Final = 10
_INDEX_SECONDS: Final = 0.25
"""of every five seconds: a search finds a small rest, and commits seldom wait"""


class Housekeeping:
    """The housekeeping thread of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()
        self._token: object = None
        self._thread = threading.Thread(target=self._rounds, name="relight-housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current round and detach the supervisors that were started."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        self._service.starter.detach()

    def _rounds(self) -> None:
        number = 0
        while not self._stopping.wait(_ROUND_SECONDS):
            tasks: list[Callable[[], None]] = [self._service.starter.reap, self._call_back]
            tasks += [self._sweep] if number % _SWEEP_ROUNDS == 0 else []
            tasks += [self._audit_new_removals] if number % _REMOVAL_ROUNDS == 0 else []
            tasks += [self._service.actions.prune] if number % _PRUNE_ROUNDS == 0 else []
            tasks += [self._index] if number % _INDEX_ROUNDS == 1 else []
            for task in tasks:
                try:
                    task()
                except RelightError as error:
                    LOG.warning("housekeeping", extra={"code": error.code, "said": str(error)[:200]})
                except Exception:  # a fault in one task does not end the others, nor the next rounds
                    LOG.exception("housekeeping")
            number += 1

    def _call_back(self) -> None:
        self._service.callbacks.scan()
        self._service.callbacks.deliver()

    def _index(self) -> None:
        self._service.rl.admin.migrate(seconds=_INDEX_SECONDS)

    def _sweep(self) -> None:
        """Sweep if the store's policy says that it is due; once a day among all processes of the store."""
        if not self._service.settings.sweep:
            return
        who = f"serve on {os.uname().nodename}"
        removed = self._service.rl.admin.sweep_if_due(by=who)
        if removed is None:
            return
        names = dict(zip(removed.sessions, removed.names, strict=True))
        self._audit_removals(names)
        for session, name in names.items():
            LOG.info("swept", extra={"session": session, "name_": name})
        fields = {"sessions": len(removed), "steps": removed.steps, "bytes": removed.size_bytes + removed.file_bytes}
        LOG.info("sweep", extra=fields)

    def _audit_removals(self, names: Mapping[str, str] | None = None) -> None:
        """Write audit entries for the store's new tombstones of policy removals, whichever process made them."""
        service, known = self._service, names or {}
        newest = service.state.meta(_NOTED) or ""
        for tombstone, one in service.rl.sessions.removals(after=newest).items():
            for session in one.sessions if one.by_policy else ():
                if service.rl.sessions.find(session) is None:  # else its id was imported again after the removal
                    service.actions.record_swept(session, known.get(session), one)
            service.state.set_meta(_NOTED, tombstone)

    def _audit_new_removals(self) -> None:
        token = self._service.rl.store.changed()
        if token != self._token:
            self._token = token
            self._audit_removals()
