"""The durability of a Redis server, from its settings. A setting that cannot be read counts as not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Level = Literal["power-loss", "process-crash", "none"]
ORDER: Final[tuple[Level, ...]] = ("none", "process-crash", "power-loss")
SETTINGS: Final = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "maxmemory",
    "maxmemory-policy",
    "save",
)


class Durability(msgspec.Struct, frozen=True, kw_only=True):
    """A level, why it is not better, and the commands that would make it the best one."""

    level: Level
    why: str = ""
    cures: tuple[str, ...] = ()
    save: str | None = None
    """when it writes a dump; None if that cannot be read"""

    def reaches(self, demanded: Level) -> bool:
        """True if it is at least this level."""
        return ORDER.index(self.level) >= ORDER.index(demanded)


UNKNOWN: Final = Durability(
    level="none",
    why="its settings cannot be read (CONFIG is forbidden), so nothing is promised",
    cures=("allow it: ACL SETUSER <user> +config|get",),
)


def judge(settings: Mapping[str, str]) -> Durability:
    """The durability that these settings give."""
    if "appendonly" not in settings or "appendfsync" not in settings:
        return UNKNOWN
    save = settings.get("save", "")
    policy = settings.get("maxmemory-policy", "")
    bounded = settings.get("maxmemory", "0") != "0"
    if settings["appendonly"] != "yes":
        return Durability(
            level="none",
            why="appendonly is off, so that a crash of the server loses "
            + ("what came after its last dump" if save else "everything"),
            cures=("CONFIG SET appendonly yes", "CONFIG SET appendfsync always"),
            save=save,
        )
    if policy.startswith("allkeys-") and bounded:
        return Durability(
            level="none",
            why=f"maxmemory-policy is {policy}, so that it throws sessions away when it is full",
            cures=("CONFIG SET maxmemory-policy noeviction",),
            save=save,
        )
    short = {
        f"appendfsync is {settings['appendfsync']}": settings["appendfsync"] != "always",
        "no-appendfsync-on-rewrite is on": settings.get("no-appendfsync-on-rewrite", "no") != "no",
        f"maxmemory-policy is {policy or 'unknown'}": policy != "noeviction",
    }
    why = [argument for argument, is_short in short.items() if is_short]
    if not why:
        return Durability(level="power-loss", save=save)
    cures = ("appendfsync always", "no-appendfsync-on-rewrite no", "maxmemory-policy noeviction")
    wanted = tuple(f"CONFIG SET {cure}" for cure, is_short in zip(cures, short.values(), strict=True) if is_short)
    return Durability(level="process-crash", why=" and ".join(why), cures=wanted, save=save)
