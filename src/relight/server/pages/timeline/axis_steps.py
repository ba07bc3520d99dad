"""Reads what the time axis of a page needs, each step once as long as pages of that session are open."""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from relight.errors import Corrupt
from relight.server.pages.plots import Measure
from relight.server.pages.timeline.axis import Axis
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.values.info import SessionInfo

_MAX_CACHED: Final = 64


class _Measured(msgspec.Struct, kw_only=True):
    """The steps of a session after one, measured as far as they were read."""

    measure: Measure
    upto: int
    lock: threading.Lock


class Axes:
    """Measured windows by session and first step. Thread-safe; the oldest is forgotten."""

    def __init__(self) -> None:
        self._measured: OrderedDict[tuple[str, int], _Measured] = OrderedDict()
        self._lock = threading.Lock()

    def of(
        self,
        rl: Relight,
        info: SessionInfo,
        now: datetime,
        *,
        after: int,
        upto: int,
        origin: int,
        shown: int = 0,
        zoom: tuple[float, float] | None = None,
    ) -> Axis:
        """The axis of the steps after < seq <= upto; the first step after `origin` has the coordinate 0. It begins with
        the rows of the page: those after `shown`."""
        is_end = upto >= info.seq
        # Only a window up to the end grows; any other is read for one request.
        measured = self._at(info.id, after) if is_end else _new(after)
        with measured.lock:
            measure = measured.measure
            with suppress(Corrupt):  # the page reports the damage
                for event in rl.history.events(info.id, after=measured.upto, upto=upto):
                    measure.read([event])
                    measured.upto = event.seq
            spans, attempts, times = list(measure.spans), [at for at, _ in measure.attempts], measure.times
            begins = next((at for seq, at in times if seq > origin), times[-1][1] if times else now.timestamp())
            first = bisect.bisect_right(times, shown, key=lambda one: one[0])
            begun = times[first - 1][1] if first else None
            going = measure.going_on(now.timestamp(), live=info.status in LIVE)
        is_open = is_end and going is not None and info.status in LIVE | {"waiting", "queued"}
        if is_open and going is not None:
            spans.append(going)
        return Axis(spans, attempts, origin=begins, is_open=is_open, shown=begun, zoom=zoom)

    def _at(self, session: str, after: int) -> _Measured:
        with self._lock:
            found = self._measured.pop((session, after), None) or _new(after)
            self._measured[session, after] = found
            while len(self._measured) > _MAX_CACHED:
                self._measured.popitem(last=False)
            return found


def _new(after: int) -> _Measured:
    return _Measured(measure=Measure(), upto=after, lock=threading.Lock())
