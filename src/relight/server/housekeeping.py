"""What a server does besides answering: reap, tell who wanted to be told, sweep once a day, keep its own file small.

One thread, one round every half second; whatever fails in a round is logged and tried again in the next.
"""

from __future__ import annotations

import threading
from typing import Final

from relight.errors import RelightError
from relight.server.logs import LOG
from relight.server.service import Service

_ROUND_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 15.0
_SWEPT: Final = "swept_us"
_PRUNE_ROUNDS: Final = 600


class Housekeeping:
    """The rounds of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._rounds, name="relight-housekeeping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present round; supervisors that were started live on."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        self._service.starter.leave()

    def _rounds(self) -> None:
        number = 0
        while not self._stopping.wait(_ROUND_SECONDS):
            for part in (self._service.starter.reap, self._call_back, self._sweep):
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
            self._service.acting.prune()
        except RelightError as error:
            LOG.warning("housekeeping", extra={"code": error.code, "said": str(error)[:200]})

    def _sweep(self) -> None:
        """Once a day, whoever swept last; what was removed is logged by name."""
        settings, now = self._service.settings, self._service.clock.now_us()
        last = int(self._service.state.meta(_SWEPT) or 0)
        if not settings.sweep or now - last < settings.sweep_hours * 3600e6:
            return
        self._service.state.remember(_SWEPT, str(now))
        removed = self._service.rl.sweep()
        for session, name in zip(removed.sessions, removed.names, strict=True):
            LOG.info("swept", extra={"session": session, "name_": name})
        said = {"sessions": len(removed), "steps": removed.steps, "bytes": removed.size_bytes + removed.file_bytes}
        LOG.info("sweep", extra=said)
