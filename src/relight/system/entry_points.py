"""Agents, runtimes, workspaces and blob storage of other distributions, found by their entry points.

Looking through the installed distributions takes milliseconds, so it is done on first use: for a name
that is not built in, for a command that no built-in agent recognises, and by `relight doctor`. A name that is built in
is never taken from another distribution.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.errors import UsageError

AGENTS: Final = "agents"
"""name: the agent's; object: a `relight.ports.agent.Registration`"""
RUNTIMES: Final = "runtimes"
"""name: what `--runtime` and a session's record say; object: a `relight.ports.runtime.RuntimeFactory`"""
WORKSPACES: Final = "workspaces"
"""name: what RELIGHT_WORKSPACES says; object: a `relight.ports.workspace.WorkspacesFactory`"""
BLOBS: Final = "blobs"
"""name: the scheme of an address in RELIGHT_BLOBS; object: a `relight.ports.blobs.BlobsFactory`"""
GROUPS: Final = (AGENTS, RUNTIMES, WORKSPACES, BLOBS)
"""without `relight.` before them"""


class EntryPoint(msgspec.Struct, frozen=True, order=True):
    """One entry point of an installed distribution, not loaded."""

    group: str
    name: str
    distribution: str
    version: str
    value: str
    """`module:attribute`"""

    @property
    def kind(self) -> str:
        """What it adds, as a word: agent, runtime, workspace, blobs."""
        return self.group.removesuffix("s") if self.group != BLOBS else "blob storage"

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name!r} of {self.distribution} {self.version}"


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, sorted by name and distribution."""
    if not _may_be_any():
        return ()
    from importlib.metadata import distributions

    wanted = f"relight.{group}"
    # A distribution that is found twice on the path counts once, as for an import: where it is found first.
    found: dict[str, list[EntryPoint]] = {}
    for one in distributions():
        distribution = one.name or "a distribution without a name"
        if distribution in found:
            continue
        points = one.entry_points if wanted in (one.read_text("entry_points.txt") or "") else ()
        found[distribution] = [
            EntryPoint(group, point.name, distribution, one.version, point.value)
            for point in points
            if point.group == wanted
        ]
    return tuple(sorted(point for points in found.values() for point in points))


@cache
def _may_be_any() -> bool:
    """Whether some installed distribution names a group of ours. Reading the files of the directories on the path takes
    a few milliseconds; importing the parser of metadata and asking it takes ten times as long."""
    for place in map(Path, dict.fromkeys(sys.path)):
        if not place.is_dir():
            if place.exists():
                return True  # an archive, which the parser of metadata can read
            continue
        for kind in ("dist-info", "egg-info"):
            for path in place.glob(f"*.{kind}/entry_points.txt"):
                try:
                    if b"[relight." in path.read_bytes():
                        return True
                except OSError:
                    continue
    return False


def conflict(point: EntryPoint, built_in: Collection[str]) -> str | None:
    """Why this entry point is not used: its name is taken. None if it is used."""
    if point.name in built_in:
        return f"{point.name!r} is built in"
    first = next(one for one in installed(point.group) if one.name == point.name)
    return None if first == point else f"{first.title} has the same name"


def find(group: str, name: str) -> EntryPoint | None:
    """The entry point of this name; of several distributions with the same name the first in alphabetical order."""
    return next((point for point in installed(group) if point.name == name), None)


def load(point: EntryPoint) -> Any:
    """The object of an entry point. UsageError, with the distribution's name, if importing it fails."""
    from importlib.metadata import EntryPoint as Metadata

    try:
        return Metadata(point.name, point.value, f"relight.{point.group}").load()
    # Whatever a foreign module raises while it is imported: the error has to name its distribution.
    except Exception as error:
        raise unusable(point, f"{type(error).__name__}: {error}") from error


def unusable(point: EntryPoint, why: str) -> UsageError:
    """The error for an entry point whose object cannot be used."""
    hints = [f"update or remove it: pip install --upgrade {point.distribution}", "see all of them: relight doctor"]
    return UsageError(f"{point.title} cannot be loaded from {point.value}: {why}", hints=hints)
