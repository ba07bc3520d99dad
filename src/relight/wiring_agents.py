"""The part of the composition root (wiring.py) that knows agents, their hooks, and what frameworks' records hold.

Each is imported on first use: a command that lists sessions loads none of them. Agents of other distributions are
looked for when a name or a command is none of the built-in ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from relight.agents.registry import BUILT_IN, COMMAND
from relight.errors import UsageError
from relight.journal import extensions
from relight.ports.registration import Registration
from relight.system import entry_points
from relight.system.entry_points import EntryPoint
from relight.system.process_facts import SERVICES
from relight.telemetry.notices import notice

if TYPE_CHECKING:
    from relight.journal.formats.format import Format
    from relight.ports.agent import AgentAdapter
    from relight.ports.hooks import Answer, HookListener

_PLAIN: Final = "command"
RESERVED: Final = frozenset({*BUILT_IN, _PLAIN, *(alias for one in BUILT_IN.values() for alias in one.aliases)})
"""names that no other distribution can register"""


@cache
def _object(place: str) -> Any:
    """The object at `module:attribute`, or the module."""
    module, _, attribute = place.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


@cache
def _adapter(place: str) -> AgentAdapter:
    found = _object(place)
    adapter: AgentAdapter = found() if isinstance(found, type) else found
    return adapter


@cache
def _added(point: EntryPoint) -> Registration | None:
    """What another distribution registers; None, with a notice, if it cannot be used: other agents still can."""
    try:
        return registration_of(point)
    except UsageError as error:
        notice(str(error))
        return None


def registration_of(point: EntryPoint) -> Registration:
    """What an entry point registers, its parts imported. UsageError if that fails."""
    found = entry_points.load(point)
    if not isinstance(found, Registration):
        raise entry_points.unusable(point, f"expected a relight.ports.agent.Registration, not {type(found).__name__}")
    try:
        adapter = _adapter(found.adapter)
        for place in (found.format, found.failures):
            if place is not None:
                _object(place)
    # Whatever a foreign module raises while it is imported: the error has to name its distribution.
    except Exception as error:
        raise entry_points.unusable(point, f"{type(error).__name__}: {error}") from error
    if adapter.name != point.name:
        raise entry_points.unusable(point, f"its adapter calls itself {adapter.name!r}")
    SERVICES.update(dict.fromkeys(found.programs, found.services) if found.services else {})
    return found


def _additions() -> list[Registration]:
    """The usable agents of other distributions."""
    points = entry_points.installed(entry_points.AGENTS)
    used = [point for point in points if entry_points.conflict(point, RESERVED) is None]
    return [found for point in used if (found := _added(point)) is not None]


def _registered(name: str) -> Registration | None:
    """The agent of this name or alias, built in or not."""
    found = BUILT_IN.get(name) or next((one for one in BUILT_IN.values() if name in one.aliases), None)
    if found is not None or name in ("", _PLAIN):
        return found
    point = entry_points.find(entry_points.AGENTS, name)
    return _added(point) if point is not None else next((one for one in _additions() if name in one.aliases), None)


class Agents:
    """The agent adapters; imported on first use."""

    names = frozenset(BUILT_IN)

    def named(self, name: str) -> AgentAdapter:
        found = _registered(name)
        return _adapter(found.adapter if found is not None and name not in found.aliases else COMMAND)

    def of(self, command: Sequence[str]) -> AgentAdapter:
        # Only an adapter that may recognise the command is imported; of other distributions' only if none of ours does.
        for one in BUILT_IN.values():
            if any(program in word for word in command for program in one.programs):
                adapter = _adapter(one.adapter)
                if adapter.recognises(command):
                    return adapter
        added = (_adapter(one.adapter) for one in _additions())
        return next((one for one in added if one.recognises(command)), None) or _adapter(COMMAND)

    def known(self) -> tuple[AgentAdapter, ...]:
        return tuple(_adapter(one.adapter) for one in (*BUILT_IN.values(), *_additions()))

    def headless(self, name: str) -> tuple[str, ...]:
        found = _registered(name)
        return found.headless if found is not None else ()


class AgentExtensions:
    """What agents and frameworks teach the journal (`journal.extensions.Extensions`); imported on first use."""

    def formats(self) -> tuple[Format, ...]:
        return tuple(_object(one.format) for one in BUILT_IN.values() if one.format is not None)

    def more_formats(self) -> tuple[Format, ...]:
        return tuple(_object(one.format) for one in _additions() if one.format is not None)

    def end_reader(self, agent: str) -> extensions.EndReader | None:
        found = _registered(agent)
        reader: extensions.EndReader | None = _object(found.failures) if found is not None and found.failures else None
        return reader

    def record_readers(self) -> tuple[extensions.RecordReader, ...]:
        from relight.frameworks.langgraph import conversation

        return (conversation,)


class Hooks:
    """The hook channel; imported only by supervisors."""

    @property
    def command(self) -> tuple[str, ...]:
        from relight.hooks.channel import SocketHooks

        return SocketHooks.command

    def listen(self, directory: Path, answer: Answer) -> HookListener:
        from relight.hooks.channel import SocketHooks

        return SocketHooks().listen(directory, answer)


extensions.install(AgentExtensions())
SERVICES.update({program: one.services for one in BUILT_IN.values() for program in one.programs})
