"""What other distributions add to relight by entry points: each is loaded, and named with its distribution."""

from __future__ import annotations

from typing import Final

from relight import wiring, wiring_agents
from relight.cli.maintenance.doctor.files import Finding
from relight.errors import UsageError
from relight.system import entry_points
from relight.system.entry_points import EntryPoint

_BUILT_IN: Final = {
    entry_points.AGENTS: wiring_agents.RESERVED,
    entry_points.RUNTIMES: frozenset(wiring.RUNTIMES),
    entry_points.WORKSPACES: frozenset({wiring.TREE}),
    entry_points.BLOBS: frozenset(wiring.BLOB_SCHEMES),
}


def check_additions() -> list[Finding]:
    """One finding for each entry point of another distribution; none if there is none."""
    return [_checked(point) for group in entry_points.GROUPS for point in entry_points.installed(group)]


def _checked(point: EntryPoint) -> Finding:
    taken = entry_points.conflict(point, _BUILT_IN[point.group])
    if taken is not None:
        return Finding("added", f"{point.title} is not used: {taken}", False, f"pip uninstall {point.distribution}")
    try:
        if point.group == entry_points.AGENTS:
            wiring_agents.registration_of(point)
        else:
            wiring.factory_of(point)
    except UsageError as error:
        return Finding("added", error.message, False, error.hints[0])
    return Finding("added", point.title)
