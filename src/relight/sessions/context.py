"""`Context`: the ports and settings that every use case is given, bound once in wiring.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from relight.journal.redaction.recorded_fields import redacted
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.store import Store
from relight.sessions.calls.running_effects import RunningEffects
from relight.sessions.heartbeat import Heartbeat
from relight.sessions.redacting_store import ALL, REDACT_VARIABLE, Recording
from relight.values.session import Identity
from relight.values.step import Changes

if TYPE_CHECKING:
    from relight.journal.prices import Price
    from relight.journal.redaction.redactor import Redactor
    from relight.ports.agent import AgentAdapter, Agents
    from relight.ports.hooks import HookChannel
    from relight.ports.runtime import Runtime
    from relight.ports.workspace import Workspaces


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The ports of one open store, with what depends on the process and its settings."""

    store: Store
    clock: Clock
    entropy: Entropy
    host: Host
    heartbeat: Heartbeat
    runtimes: Callable[[str, str, bool], Runtime]
    """runtime by name, for a session id, with or without network; see `runtime`"""
    agents: Agents
    """adapters of coding agents"""
    hooks: HookChannel
    """channel from running agents to their supervisor"""
    redactor: Callable[[], Redactor]
    """removes secrets from what is recorded"""
    declare_secrets: Callable[[Sequence[str]], None]
    """treat the values of these environment variables as secrets from now on"""
    run_directory: Callable[[str], Path]
    """private directory of a running session (sockets, logs); created on first use"""
    run_directories: Callable[[], list[str]]
    """ids of sessions that have a run directory"""
    remove_run_directory: Callable[[str], None]
    """remove it with its content, sandbox homes included; no error if there is none"""
    write_private: Callable[[Path, bytes], None]
    """write a file atomically, readable by the user only"""
    environment: Mapping[str, str]
    """environment of this process, inherited by what it starts"""
    prices: Callable[[], Mapping[str, Price]]
    """model prices given by the user; they override the built-in table"""
    uses_library: Callable[[Sequence[str], str], bool]
    """whether the program of a command, started in this directory, imports relight"""
    workspaces: Callable[[], Workspaces]
    """captures files; a callable, so that sessions without a workspace do not import it"""
    notify: Callable[[str], None]
    """print one line to the terminal; silent if hints are off"""
    sweep_in_background: Callable[[], None]
    """start the daily sweep in a separate process that outlives this one; no effect for single-process stores"""
    inherited: dict[str, str]
    """session and owner that a supervisor handed over to this process, removed by the first opening, and the parent
    session; see processes/inheritance.py"""
    mark_as_program: Callable[[str], None]
    """record that this process is the program of that session"""
    running_effects: RunningEffects = msgspec.field(default_factory=RunningEffects)
    """effects that run in this process: the store is closed by the last of them"""
    open_other: Callable[[str], Context]
    """the ports of another store, which is created if it is missing; the caller closes it"""
    commands: dict[str, tuple[str, ...]]
    """by session: command lines as given to this process, if the stored form is redacted"""

    def queue_time_us(self) -> int:
        """Now, as queues count time: the server's clock if the store has one, so that machines with different clocks
        agree on the order and on wakeups."""
        if not self.store.info.on_server:
            return self.clock.now_us()
        there = self.store.instant()
        return there.us if there.timeline != self.clock.instant().timeline else self.clock.now_us()

    def price(self, model: str | None) -> Price | None:
        """Price of a model's tokens; None if unknown."""
        if not model:
            return None
        from relight.journal.prices import price_of  # imported late: commands that only read start faster

        return price_of(model, self.prices())

    def recording(self, identity: Identity) -> Recording:
        """What is redacted before a session's steps are written: always what is said about the session; its data too,
        if that was requested or if it is the conversation of a coding agent."""
        everything = identity.redact or self.environment.get(REDACT_VARIABLE) == ALL
        return Recording(self.redactor, data=everything or self.is_coding_agent(identity))

    def redacted_changes(self, changes: Changes) -> Changes:
        """Redact changes that hold no data of the program."""
        return redacted(changes, self.redactor)

    def is_coding_agent(self, identity: Identity) -> bool:
        """Whether relight starts it as a coding agent. Decided by name, so that the adapter need not be imported."""
        return identity.command is not None and identity.agent in self.agents.names

    def command_of(self, identity: Identity) -> tuple[str, ...]:
        """The command line that starts a session: as given to this process, else the stored one with its variables
        filled in."""
        if given := self.commands.get(identity.id):
            return given
        from relight.journal.redaction.command_line import expanded  # imported late: only a start needs it

        return tuple(expanded(identity.command or (), identity.secrets, self.environment))

    def agent(self, identity: Identity) -> AgentAdapter:
        """The adapter of a session, chosen by the command it was begun with."""
        return self.agents.of(identity.command) if identity.command else self.agents.named("command")

    def runtime(self, identity: Identity | None = None) -> Runtime:
        """The runtime a session's program is started in; without a session, the plain process runtime."""
        if identity is None:
            return self.runtimes("process", "", True)
        return self.runtimes(identity.runtime or "process", identity.id, identity.policy.network)
