"""The doctor's look at what is set and at a store on a server: settings, schema, and whose clock is right."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from relight import configuration
from relight.cli.maintenance.doctor.finding import Finding
from relight.journal.queues.order import matching_queues
from relight.text.format import count, display_path

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.ports.clock import Clock
    from relight.ports.schema import SchemaStatus
    from relight.ports.store import Store

_OFF_SECONDS: Final = 2.0
"""ages and retention are wrong by as much; leases are not, because they count in the server's time"""
_TRIES: Final = 3


def check_settings() -> list[Finding]:
    """Which file of settings holds, and who may read it."""
    path = configuration.place(os.environ)
    if path is None:
        return []
    given = configuration.read(path)
    text = f"{display_path(str(path))}: {count(len(given), 'setting')}"
    over = sorted(name for name, value in given.items() if os.environ.get(name) != value)
    if over:
        text += f"; the environment says otherwise for {', '.join(over)}"
    if "@" in given.get("RELIGHT_STORE", "") and stat.S_IMODE(path.stat().st_mode) & 0o077:
        return [Finding("settings", f"{text}; others may read the password in it", False, f"chmod 600 {path}")]
    return [Finding("settings", text)]


def check_schema(store: Store) -> list[Finding]:
    """Its number, which every worker has to agree about."""
    schema = getattr(store, "schema_version", None)
    return [] if schema is None else [Finding("schema", f"version {schema}, up to date")]


def not_current(one: SchemaStatus) -> Finding:
    """A schema that an older relight made; the rest is looked at once it is updated."""
    text = f"{one.place}: version {one.found}, and this relight wants {one.wanted}"
    return Finding("schema", text, False, "update it, workers of the old version stopped: relight migrate")


def check_engine(rl: Relight, statuses: Sequence[SchemaStatus]) -> list[Finding]:
    """What wakes workers, who they are, and whether somebody waits whom nobody serves. Empty where nobody is."""
    missing = [one for one in statuses if one.part == "engine" and one.found is None]
    workers, waiting = rl.workers(), [one for one in rl.queues() if one.queued]
    if not workers and not waiting:
        return []
    if missing and not workers:
        text = f"{missing[0].place}: not there yet; the first worker makes it"
        return [Finding("engine", text, False, "relight migrate, then: relight worker")]
    alive = [one.worker for one in workers if one.alive]
    lines = rl.store.list_queue_keys()
    unserved = [line for line in lines if not any(matching_queues([line], one.queues, one.labels) for one in alive)]
    kinds = ", ".join(sorted({worker.engine for worker in alive})) or "nobody works"
    text = f"{kinds}: {count(len(alive), 'worker')}, {count(sum(one.queued for one in waiting), 'session')} in line"
    if unserved:
        names = ", ".join(f"{one.queue} with {','.join(one.wants)}" if one.wants else one.queue for one in unserved)
        labels = f" --labels {','.join(unserved[0].wants)}" if unserved[0].wants else ""
        cure = f"relight worker --queue {unserved[0].queue}{labels}"
        return [Finding("engine", f"{text}; nobody serves {names}", False, cure)]
    silent = [one.worker.name for one in workers if not one.alive]
    if silent:
        text += f"; silent: {', '.join(silent)}"
        return [
            Finding(
                "engine",
                text,
                False,
                "its sessions are taken over; start it again, or leave it: an hour later it is forgotten",
            )
        ]
    return [Finding("engine", text)]


def check_skew(rl: Relight, clock: Clock) -> list[Finding]:
    """How far this machine's clock and the server's are apart: the best of several looks. Nothing where it is one."""
    if not hasattr(rl.store, "place"):
        return []
    ahead, unsure = min((_skew(rl.store, clock) for _ in range(_TRIES)), key=lambda one: one[1])
    how_far = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    if abs(ahead) - unsure > _OFF_SECONDS:
        text = f"this machine is {how_far}; leases use the server's, ages and retention do not"
        return [Finding("skew", text, False, "set the clock of this machine: timedatectl set-ntp true")]
    return [Finding("skew", f"within {abs(ahead) + unsure:.3f} s of the server's clock, which leases use")]


def _skew(store: Store, clock: Clock) -> tuple[float, float]:
    """How many seconds we are ahead, and how sure that is: half the way there and back."""
    before = clock.now_us()
    there = store.instant().us
    after = clock.now_us()
    return ((before + after) / 2 - there) / 1e6, (after - before) / 2e6
