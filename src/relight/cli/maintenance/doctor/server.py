"""Checks of settings, schema, workers and clock skew."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from relight import configuration
from relight.cli.maintenance.doctor.files import Finding
from relight.journal.queues.order import matching_queues
from relight.text.format import count, display_path
from relight.values.store import StoreInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.ports.clock import Clock
    from relight.ports.schema import SchemaStatus
    from relight.ports.store import Store

_OFF_SECONDS: Final = 2.0
"""a larger skew makes ages and retention wrong; leases use the server's time"""
_TRIES: Final = 3


def check_settings() -> list[Finding]:
    """Which configuration file is used, and whether others can read a password in it."""
    path = configuration.find_file(os.environ)
    if path is None:
        return []
    given = configuration.read(path)
    text = f"{display_path(str(path))}: {count(len(given), 'setting')}"
    over = sorted(name for name, value in given.items() if os.environ.get(name) != value)
    if over:
        text += f"; overridden by the environment: {', '.join(over)}"
    if "@" in given.get("RELIGHT_STORE", "") and stat.S_IMODE(path.stat().st_mode) & 0o077:
        return [Finding("settings", f"{text}; others may read the password in it", False, f"chmod 600 {path}")]
    return [Finding("settings", text)]


def check_schema(info: StoreInfo) -> list[Finding]:
    """Schema version of the store."""
    schema = info.schema_version
    return [] if schema is None else [Finding("schema", f"version {schema}, up to date")]


def not_current(one: SchemaStatus) -> Finding:
    """The finding for a schema of an older version."""
    text = f"{one.place}: version {one.found}, this relight needs {one.wanted}"
    return Finding("schema", text, False, "stop old workers, then: relight migrate")


def check_engine(rl: Relight, statuses: Sequence[SchemaStatus]) -> list[Finding]:
    """Engine, workers, and queues that no worker serves; empty without workers and queued sessions."""
    missing = [one for one in statuses if one.part == "engine" and one.found is None]
    workers, waiting = rl.queues.workers(), [one for one in rl.queues.list() if one.queued]
    if not workers and not waiting:
        return []
    if missing and not workers:
        text = f"{missing[0].place}: does not exist yet; the first worker creates it"
        return [Finding("engine", text, False, "relight migrate, then: relight worker")]
    alive = [one.worker for one in workers if one.alive]
    keys = rl.store.list_queue_keys()
    unserved = [key for key in keys if not any(matching_queues([key], one.queues, one.labels) for one in alive)]
    kinds = ", ".join(sorted({worker.engine for worker in alive})) or "no workers"
    text = f"{kinds}: {count(len(alive), 'worker')}, {count(sum(one.queued for one in waiting), 'session')} queued"
    if unserved:
        names = ", ".join(f"{one.queue} with {','.join(one.wants)}" if one.wants else one.queue for one in unserved)
        labels = f" --labels {','.join(unserved[0].wants)}" if unserved[0].wants else ""
        cure = f"relight worker --queue {unserved[0].queue}{labels}"
        return [Finding("engine", f"{text}; no worker serves {names}", False, cure)]
    silent = [one.worker.name for one in workers if not one.alive]
    if silent:
        text += f"; silent: {', '.join(silent)}"
        return [
            Finding(
                "engine",
                text,
                False,
                "its sessions are taken over; restart it, or ignore it: it is removed after an hour",
            )
        ]
    return [Finding("engine", text)]


def check_skew(rl: Relight, clock: Clock) -> list[Finding]:
    """Clock skew to the store's server: the best of several measurements. Empty for a local store."""
    if not rl.store.info.on_server:
        return []
    # The measurement with the shortest round trip has the smallest error.
    ahead, unsure = min((_skew(rl.store, clock) for _ in range(_TRIES)), key=lambda one: one[1])
    how_far = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    if abs(ahead) - unsure > _OFF_SECONDS:
        text = f"this machine is {how_far}; leases use the server's, ages and retention do not"
        return [Finding("skew", text, False, "set the clock of this machine: timedatectl set-ntp true")]
    return [Finding("skew", f"within {abs(ahead) + unsure:.3f} s of the server's clock, which leases use")]


def _skew(store: Store, clock: Clock) -> tuple[float, float]:
    """Seconds that this machine is ahead, and the error bound: half the round trip."""
    before = clock.now_us()
    there = store.instant().us
    after = clock.now_us()
    return ((before + after) / 2 - there) / 1e6, (after - before) / 2e6
