"""What registers a coding agent, apart from its port: the table of the agents is read by every command."""

from __future__ import annotations

import msgspec


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """One agent as it is registered: by the table of the built-in ones, or by another distribution's entry point in the
    group `relight.agents`. Its parts are named as `module:attribute` and imported when they are first used."""

    adapter: str
    """an `AgentAdapter`, or a class without arguments that makes one; its `name` is the registered one"""
    format: str | None = None
    """how its transcript lines are read (`relight.journal.formats.format.Format`). A line has no `role` of its own:
    a message with one is a provider's"""
    failures: str | None = None
    """how its ends are read (`relight.journal.extensions.EndReader`); a module may be one"""
    programs: tuple[str, ...] = ()
    """parts of the words of a command that it may recognise; empty: it is asked about every command"""
    aliases: tuple[str, ...] = ()
    """other names under which its ends are reported"""
    services: tuple[tuple[str, str], ...] = ()
    """the first argument, and a later one, with which its program runs as a service for several sessions: it is the
    orphan of none"""
    headless: tuple[str, ...] = ()
    """the command that runs a prompt, given as its last argument, without a screen"""
