"""What every use case is given: the ports, bound once by the composition root."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from relight.engine.heartbeat import Heartbeat
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.runtime import Runtime
from relight.ports.store import Store
from relight.ports.workspace import Workspaces


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The seams of one open relight."""

    store: Store
    clock: Clock
    entropy: Entropy
    host: Host
    heartbeat: Heartbeat
    runtime: Callable[[], Runtime]
    """where programs are started; asked for only by those who start, find or stop one"""
    workspaces: Callable[[], Workspaces]
    """where the files of sessions are captured; asked for only by sessions that have some"""
    tell: Callable[[str], None]
    """one line for the person at the terminal; silent where hints are off"""
    handed: dict[str, str]
    """RELIGHT_SESSION and RELIGHT_OWNER as a supervisor set them, taken by the first opening"""
