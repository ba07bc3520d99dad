"""Daily upkeep of the store: verify every digest, try restoring some sessions, record the store's size.

One thread with a duty cycle of a tenth: after each session it pauses nine times as long as that took. Results are
stored in the server's state file. Of several servers that share it one does the work; if that one is killed, another
takes over when its heartbeat is ten minutes old.
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
"""bytes that are read daily: above it the store's own check, or the captured files, are skipped; the drill still reads
some of them. Files in a remote blob store are always skipped"""
_DRILL_CANDIDATES: Final = 1000
_DAY_US: Final = 86_400_000_000
_FIRST_SECONDS: Final = 60.0
_ROUND_SECONDS: Final = 30.0
_PAUSE_FACTOR: Final = 9.0
_MAX_PAUSE_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0
_SILENT_US: Final = 600_000_000
"""a server whose heartbeat is older has died during upkeep"""
_MAX_NAMES: Final = 10
_MAX_SIZES: Final = 60
_HEARTBEAT: Final = "upkeep_us"
_HEARTBEAT_US: Final = 10_000_000
_DRILL_PREFIX: Final = "drill-"
_T = TypeVar("_T")


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Result of verifying every digest."""

    at_us: int
    sessions: int
    steps: int
    broken: int
    names: list[str] = []
    """the first broken sessions"""
    files: bool = True
    """captured files were verified too"""
    seconds: float


class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """Result of restoring sessions into an empty directory and comparing them with their snapshots."""

    at_us: int
    restored: int
    tried: int
    files: int
    trouble: str = ""
    """why the first of them could not be restored"""
    seconds: float


class Size(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Size of the store at one time."""

    at_us: int
    size_bytes: int


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the store grows."""

    bytes_a_day: float
    full_in_days: float | None
    """at this speed; None if it does not grow, or if its disk is on another machine"""


class Upkeep:
    """The upkeep thread of one server, and the newest results."""

    def __init__(self, rl: Relight, state: ServerState, settings: ServerSettings, clock: Clock) -> None:
        self._rl, self._state, self._settings, self._clock = rl, state, settings, clock
        self._heartbeat_us = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # -- results ----------------------------------------------------------------------------------------------------

    @property
    def verified(self) -> Verified | None:
        """The newest verification; None if there was none yet."""
        return self._read("verified", Verified)

    @property
    def drilled(self) -> Drill | None:
        """The newest restore drill; None if there was none yet."""
        return self._read("drilled", Drill)

    @property
    def growth(self) -> Growth | None:
        """Growth over the recorded sizes; None until there are two that are a day apart."""
        sizes = self._read("sizes", list[Size]) or []
        return growth_of(sizes, free_bytes=self._free_bytes())

    def _free_bytes(self) -> int | None:
        near = self._rl.store.url.startswith("sqlite") and not self._rl.files.location()[1]
        return shutil.disk_usage(self._settings.directory).free if near else None

    def _read(self, key: str, kind: type[_T]) -> _T | None:
        text = self._state.meta(key)
        try:
            return msgspec.json.decode(text, type=kind) if text else None
        except msgspec.MsgspecError:
            return None  # written by another version; the next round replaces it

    # -- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; its first round comes after a minute, so that a start of the server is quick."""
        if not self._settings.upkeep:
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._rounds, name="relight-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the session that is being read."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _rounds(self) -> None:
        if self._stopping.wait(_FIRST_SECONDS):
            return
        while not self._stopping.is_set():
            try:
                if self._is_due():
                    self.run_once()
            except RelightError as error:
                LOG.warning("upkeep", extra={"code": error.code, "said": str(error)[:200]})
            except Exception:  # a fault today does not end the rounds of the next days
                LOG.exception("upkeep")
            self._stopping.wait(_ROUND_SECONDS)

    def _is_due(self) -> bool:
        now, last = self._clock.now_us(), self.verified
        if last is not None and now - last.at_us < _DAY_US:
            return False
        # Read and write of the heartbeat in one transaction: of two servers one sees the other's.
        with self._state.transaction():
            if now - int(self._state.meta(_HEARTBEAT) or 0) < _SILENT_US:
                return False
            self._state.set_meta(_HEARTBEAT, str(now))
        return True

    def run_once(self, *, pause_factor: float = _PAUSE_FACTOR) -> None:
        """Record the size, verify every digest and run the drill, now."""
        self._record_size()
        verified = self._verify(pause_factor)
        if verified is not None:
            self._state.set_meta("verified", msgspec.json.encode(verified).decode())
            LOG.info("verified", extra={"sessions": verified.sessions, "broken": verified.broken})
        drilled = self._drill(pause_factor) if verified is not None else None
        if drilled is not None:
            self._state.set_meta("drilled", msgspec.json.encode(drilled).decode())
            LOG.info("drilled", extra={"restored": drilled.restored, "tried": drilled.tried})

    def _throttled(self, pause_factor: float, do: Callable[[], _T]) -> _T:
        """Do one unit of work, pause in proportion to its duration, and renew the heartbeat."""
        began = time.monotonic()
        done = do()
        self._stopping.wait(min(_MAX_PAUSE_SECONDS, (time.monotonic() - began) * pause_factor))
        now = self._clock.now_us()
        if now - self._heartbeat_us > _HEARTBEAT_US:
            self._heartbeat_us = now
            self._state.set_meta(_HEARTBEAT, str(now))
        return done

    def _verify(self, pause_factor: float) -> Verified | None:
        began, sessions, steps = time.monotonic(), 0, 0
        files = not self._rl.files.location()[1] and self._rl.files.size_bytes() <= _MAX_READ
        broken = self._throttled(pause_factor, self._damage)
        try:
            for info in self._rl.sessions.list():
                if self._stopping.is_set():
                    return None
                report = self._throttled(pause_factor, partial(self._verified, info.id, files=files))
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
            names=broken[:_MAX_NAMES],
            files=files,
            seconds=round(time.monotonic() - began, 1),
        )

    def _damage(self) -> list[str]:
        """What the store's integrity check finds."""
        if self._rl.store.size_bytes() > _MAX_READ:
            return []
        try:
            return [damage.what for damage in self._rl.store.check()]
        except Corrupt as error:
            return [error.what]

    def _verified(self, session: str, *, files: bool) -> Report | None:
        try:
            return self._rl.history.verify(session, files=files)
        except NotFound:
            return None  # it was removed meanwhile

    def _drill(self, pause_factor: float) -> Drill | None:
        """Restore the newest DRILLS sessions that have captured files, each into its own directory."""
        for left in self._settings.directory.glob(f"{_DRILL_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)  # left by a server that was killed
        began, tried, restored, files, trouble = time.monotonic(), 0, 0, 0, ""
        with_files = (
            info for info in islice(self._rl.sessions.list(), _DRILL_CANDIDATES) if info.workspace and info.seq
        )
        for info in with_files:
            if self._stopping.is_set():
                return None
            if tried == DRILLS:
                break
            done = self._throttled(pause_factor, partial(self._restore, info.id))
            if done is None or (done.trouble is None and not done.files):
                continue
            tried, files = tried + 1, files + done.files
            restored += done.trouble is None
            trouble = trouble or (f"{info.title}: {done.trouble}" if done.trouble else "")
        seconds = round(time.monotonic() - began, 1)
        at_us = self._clock.now_us()
        return Drill(at_us=at_us, restored=restored, tried=tried, files=files, trouble=trouble[:300], seconds=seconds)

    def _restore(self, session: str) -> Drilled | None:
        with tempfile.TemporaryDirectory(prefix=_DRILL_PREFIX, dir=self._settings.directory) as directory:
            # A drill must not be what fills the disk.
            max_bytes = min(_DRILL_BYTES, shutil.disk_usage(directory).free // 4)
            try:
                return self._rl.admin.drill(session, directory, most_bytes=max_bytes)
            except NotFound:
                return None

    def _record_size(self) -> None:
        now = Size(at_us=self._clock.now_us(), size_bytes=self._rl.store.size_bytes() + self._rl.files.size_bytes())
        sizes = [*(self._read("sizes", list[Size]) or []), now][-_MAX_SIZES:]
        self._state.set_meta("sizes", msgspec.json.encode(sizes).decode())


def growth_of(sizes: list[Size], *, free_bytes: int | None) -> Growth | None:
    """Average growth from the first to the last size; None unless they are at least a day apart."""
    if len(sizes) < 2 or sizes[-1].at_us - sizes[0].at_us < _DAY_US:
        return None
    days = (sizes[-1].at_us - sizes[0].at_us) / _DAY_US
    speed = (sizes[-1].size_bytes - sizes[0].size_bytes) / days
    full = free_bytes / speed if free_bytes is not None and speed > 0 else None
    return Growth(bytes_a_day=speed, full_in_days=full)
