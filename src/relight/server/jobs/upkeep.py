"""Can the store be trusted? Once a day every digest is read, some sessions are brought back, and its size is noted.

One thread at low speed: after each session it rests nine times as long as that took, so that nobody who works feels it.
What was found is kept in the server's own file. Of several servers on one file one does it; a server that is killed on
the way is followed by another after a while.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, TypeVar

import msgspec

from relight.errors import Corrupt, NotFound, RelightError
from relight.files.drill import Drilled
from relight.history.verify import Report
from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.server.http.logs import LOG
from relight.server.settings import ServerSettings
from relight.server.state import ServerState

DRILLS: Final = 20
_DRILL_BYTES: Final = 200_000_000
_MAX_READ: Final = 20_000_000_000
"""bytes that are read in one go, or every day: the store's own check, and captured files, which else the drill stands
for; those off the machine are never read every day"""
_DRILL_LOOKED: Final = 1000
_DAY_US: Final = 86_400_000_000
_FIRST_SECONDS: Final = 60.0
_ROUND_SECONDS: Final = 30.0
_REST: Final = 9.0
_MAX_REST: Final = 30.0
_STOP_SECONDS: Final = 5.0
_SILENT_US: Final = 600_000_000
"""who says nothing for so long has died on the way"""
_NAMED: Final = 10
_SIZES: Final = 60
_BEAT: Final = "upkeep_us"
_BEAT_US: Final = 10_000_000
_PLACE: Final = "drill-"
_T = TypeVar("_T")


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Every digest was read."""

    at_us: int
    sessions: int
    steps: int
    broken: int
    names: list[str] = []
    """of the first that are broken"""
    files: bool = True
    """what was captured was read too"""
    seconds: float


class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions were brought back into an empty directory, and compared."""

    at_us: int
    restored: int
    tried: int
    files: int
    trouble: str = ""
    seconds: float


class Size(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the store took at a time."""

    at_us: int
    size_bytes: int


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How it grows."""

    bytes_a_day: float
    full_in_days: float | None
    """at this speed; None where it does not grow, or where the disk is not to be seen from here"""


class Upkeep:
    """Looks after one store."""

    def __init__(self, rl: Relight, state: ServerState, settings: ServerSettings, clock: Clock) -> None:
        self._rl, self._state, self._settings, self._clock = rl, state, settings, clock
        self._beat_us = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # -- what was found ---------------------------------------------------------------------------------------------

    @property
    def verified(self) -> Verified | None:
        """The newest look at every digest."""
        return self._read("verified", Verified)

    @property
    def drilled(self) -> Drill | None:
        """The newest restore drill."""
        return self._read("drilled", Drill)

    @property
    def growth(self) -> Growth | None:
        """From the sizes of the last days; None until there are two a day apart."""
        sizes = self._read("sizes", list[Size]) or []
        return growth_of(sizes, free_bytes=self._free_bytes())

    def _free_bytes(self) -> int | None:
        near = self._rl.store.url.startswith("sqlite") and not self._rl.file_place()[1]
        return shutil.disk_usage(self._settings.directory).free if near else None

    def _read(self, key: str, kind: type[_T]) -> _T | None:
        text = self._state.meta(key)
        try:
            return msgspec.json.decode(text, type=kind) if text else None
        except msgspec.MsgspecError:
            return None  # of another version; the next day writes it anew

    # -- looking ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, a minute from now."""
        if not self._settings.upkeep:
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._rounds, name="relight-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the session that is looked at."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _rounds(self) -> None:
        if self._stopping.wait(_FIRST_SECONDS):
            return
        while not self._stopping.is_set():
            try:
                if self._is_due():
                    self.look()
            except RelightError as error:
                LOG.warning("upkeep", extra={"code": error.code, "said": str(error)[:200]})
            except Exception:  # a fault in one look does not end the looks of the days to come
                LOG.exception("upkeep")
            self._stopping.wait(_ROUND_SECONDS)

    def _is_due(self) -> bool:
        now, last = self._clock.now_us(), self.verified
        if last is not None and now - last.at_us < _DAY_US:
            return False
        with self._state.transaction():
            if now - int(self._state.meta(_BEAT) or 0) < _SILENT_US:
                return False
            self._state.set_meta(_BEAT, str(now))
        return True

    def look(self, *, rest: float = _REST) -> None:
        """All of it, once."""
        self._note_size()
        verified = self._verify(rest)
        if verified is not None:
            self._state.set_meta("verified", msgspec.json.encode(verified).decode())
            LOG.info("verified", extra={"sessions": verified.sessions, "broken": verified.broken})
        drilled = self._drill(rest) if verified is not None else None
        if drilled is not None:
            self._state.set_meta("drilled", msgspec.json.encode(drilled).decode())
            LOG.info("drilled", extra={"restored": drilled.restored, "tried": drilled.tried})

    def _gently(self, rest: float, do: Callable[[], _T]) -> _T:
        began = time.monotonic()
        done = do()
        self._stopping.wait(min(_MAX_REST, (time.monotonic() - began) * rest))
        now = self._clock.now_us()
        if now - self._beat_us > _BEAT_US:
            self._beat_us = now
            self._state.set_meta(_BEAT, str(now))
        return done

    def _verify(self, rest: float) -> Verified | None:
        began, sessions, steps = time.monotonic(), 0, 0
        files = not self._rl.file_place()[1] and self._rl.file_bytes() <= _MAX_READ
        broken = self._gently(rest, self._damage)
        try:
            for info in self._rl.sessions():
                if self._stopping.is_set():
                    return None
                report = self._gently(rest, partial(self._verified, info.id, files=files))
                if report is None:
                    continue
                sessions, steps = sessions + 1, steps + report.steps
                broken += [] if report.ok else [info.title]
        except Corrupt as error:
            broken.append(f"sessions cannot be listed: {error.what}")
        return Verified(
            at_us=self._clock.now_us(),
            sessions=sessions,
            steps=steps,
            broken=len(broken),
            names=broken[:_NAMED],
            files=files,
            seconds=round(time.monotonic() - began, 1),
        )

    def _damage(self) -> list[str]:
        """What the store's own check finds."""
        if self._rl.store.size_bytes() > _MAX_READ:
            return []
        try:
            return [damage.what for damage in self._rl.store.check()]
        except Corrupt as error:
            return [error.what]

    def _verified(self, session: str, *, files: bool) -> Report | None:
        try:
            return self._rl.verify(session, files=files)
        except NotFound:
            return None  # it was removed meanwhile

    def _drill(self, rest: float) -> Drill | None:
        """The newest sessions that have captured files, each on its own."""
        for left in self._settings.directory.glob(f"{_PLACE}*"):
            shutil.rmtree(left, ignore_errors=True)  # of a server that was killed
        began, tried, restored, files, trouble = time.monotonic(), 0, 0, 0, ""
        with_files = (info for info in islice(self._rl.sessions(), _DRILL_LOOKED) if info.workspace and info.seq)
        for info in with_files:
            if self._stopping.is_set():
                return None
            if tried == DRILLS:
                break
            done = self._gently(rest, partial(self._brought_back, info.id))
            if done is None or (done.trouble is None and not done.files):
                continue
            tried, files = tried + 1, files + done.files
            restored += done.trouble is None
            trouble = trouble or (f"{info.title}: {done.trouble}" if done.trouble else "")
        seconds = round(time.monotonic() - began, 1)
        at_us = self._clock.now_us()
        return Drill(at_us=at_us, restored=restored, tried=tried, files=files, trouble=trouble[:300], seconds=seconds)

    def _brought_back(self, session: str) -> Drilled | None:
        with tempfile.TemporaryDirectory(prefix=_PLACE, dir=self._settings.directory) as place:
            most = min(_DRILL_BYTES, shutil.disk_usage(place).free // 4)
            try:
                return self._rl.drill(session, place, most_bytes=most)
            except NotFound:
                return None

    def _note_size(self) -> None:
        now = Size(at_us=self._clock.now_us(), size_bytes=self._rl.store.size_bytes() + self._rl.file_bytes())
        sizes = [*(self._read("sizes", list[Size]) or []), now][-_SIZES:]
        self._state.set_meta("sizes", msgspec.json.encode(sizes).decode())


def growth_of(sizes: list[Size], *, free_bytes: int | None) -> Growth | None:
    """From the first to the last of them, at least a day apart."""
    if len(sizes) < 2 or sizes[-1].at_us - sizes[0].at_us < _DAY_US:
        return None
    days = (sizes[-1].at_us - sizes[0].at_us) / _DAY_US
    speed = (sizes[-1].size_bytes - sizes[0].size_bytes) / days
    full = free_bytes / speed if free_bytes is not None and speed > 0 else None
    return Growth(bytes_a_day=speed, full_in_days=full)
