"""What a server does besides answering: reap, tell who wanted to be told, sweep where the store has a policy,
write down what policies removed, keep its own file small.

One thread, one round every half second; whatever fails in a round is logged and tried again in the next.
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
_SELDOM_ROUNDS: Final = 10
_SWEEP_ROUNDS: Final = 120
_PRUNE_ROUNDS: Final = 600


class Housekeeping:
    """The rounds of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()
        self._token: object = None
        self._thread = threading.Thread(target=self._rounds, name="relight-housekeeping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present round; supervisors that were started live on."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        self._service.starter.detach()

    def _rounds(self) -> None:
        number = 0
        while not self._stopping.wait(_ROUND_SECONDS):
            parts: list[Callable[[], None]] = [self._service.starter.reap, self._call_back]
            parts += [self._sweep] if number % _SWEEP_ROUNDS == 0 else []
            parts += [self._seldom] if number % _SELDOM_ROUNDS == 0 else []
            for part in parts:
                try:
                    part()
                except RelightError as error:
                    LOG.warning("housekeeping", extra={"code": error.code, "said": str(error)[:200]})
                except Exception:  # a fault in one part does not end the others, nor the rounds to come
                    LOG.exception("housekeeping")
            number += 1
            if number % _PRUNE_ROUNDS == 1:
                self._prune()

    def _call_back(self) -> None:
        self._service.callbacks.watch()
        self._service.callbacks.deliver()

    def _prune(self) -> None:
        try:
            self._service.actions.prune()
        except RelightError as error:
            LOG.warning("housekeeping", extra={"code": error.code, "said": str(error)[:200]})

    def _sweep(self) -> None:
        """Where the store has a policy: once a day, by whoever of all its processes is first. Logged by name."""
        if not self._service.settings.sweep:
            return
        who = f"serve on {os.uname().nodename}"
        removed = self._service.rl.sweep_if_due(by=who)
        if removed is None:
            return
        names = dict(zip(removed.sessions, removed.names, strict=True))
        self._note_removals(names)
        for session, name in names.items():
            LOG.info("swept", extra={"session": session, "name_": name})
        said = {"sessions": len(removed), "steps": removed.steps, "bytes": removed.size_bytes + removed.file_bytes}
        LOG.info("sweep", extra=said)

    def _note_removals(self, names: Mapping[str, str] | None = None) -> None:
        """What a policy removed stands in the audit log, whichever process did it: the store's tombstones say so."""
        service, known = self._service, names or {}
        newest = service.state.meta(_NOTED) or ""
        for tombstone, one in service.rl.removals(after=newest).items():
            for session in one.sessions if one.by_policy else ():
                if service.rl.find(session) is None:
                    service.actions.record_swept(session, known.get(session), one)
            service.state.set_meta(_NOTED, tombstone)

    def _seldom(self) -> None:
        """What need not be looked at twice a second: only where something was written since."""
        token = self._service.rl.store.changed()
        if token != self._token:
            self._token = token
            self._note_removals()
