"""Options: how a session is started first (`RunOptions`), and how it continues (`ResumeOptions`).

Built where they are given (a command line, a request, a program) and handed on whole to whatever starts the session,
in this process or in another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from relight.values.policy import NO_ALLOWANCE, Allowance, RunPolicy


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A session that runs a command: where, as what, and with what."""

    directory: str
    agent: str
    name: str | None = None
    """None: agent and directory"""
    runtime: str = "process"
    workspace: Mapping[str, str] | None = None
    """root name to the directory whose files are captured"""
    policy: RunPolicy = RunPolicy()
    labels: Mapping[str, str] | None = None
    env: Mapping[str, str | None] | None = None
    """variables set at every start; None: with the value they have here"""
    secrets: Sequence[str] | None = None
    """names of variables that every start needs; values are never stored"""
    parent: str | None = None
    """the session whose child it is, by name or id"""


class ResumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is to continue."""

    prompt: str | None = None
    restore: bool = False
    """create a missing workspace and restore missing files"""
    from_last_good: bool = False
    without_secrets: bool = False
    workspace: str | dict[str, str] | None = None
    """before the head: directory of the new session, instead of one beside the original"""
    in_place: bool = False
    """before the head: restore the original directory and work there"""
    name: str | None = None
    """before the head: name of the new session"""
    limits: Allowance = NO_ALLOWANCE
    """replace those it had"""
    retries: int | None = None
    """replaces the number of its policy, for this supervisor"""
    now: bool = False
    """do not wait for the end of a usage limit"""
    agent: str | None = None
    """hand the conversation over to this coding agent, by its name or its command line"""
    fallback: tuple[str, ...] | None = None
    """coding agents that continue after a usage limit and the like, from now on; None: those it had"""
    returns: bool | None = None
    """whether it returns to its first agent when that one's limit is over; None: as it was"""


AS_IT_IS: Final = ResumeOptions()
"""no options given"""
