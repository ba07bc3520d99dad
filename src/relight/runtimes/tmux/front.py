"""Who would read what is typed into a terminal: the agent itself, or something that must not get it."""

from __future__ import annotations

import os
from typing import Final

from relight.ports.runtime import SESSION_VARIABLE
from relight.system.processes import environment_of, foreground_of, group_of, members_of, start_of, value_in, words_of

_SHELLS: Final = "sh ash bash busybox csh dash elvish fish ksh ksh93 mksh nu oksh posh pwsh rbash tcsh xonsh yash zsh"
SHELLS: Final = frozenset(_SHELLS.split())


def in_the_way(pid: int) -> str:
    """Why nothing may be typed to the agent that runs as this process; empty where it is in front itself."""
    if not start_of(pid):
        return "the agent has ended"
    if not value_in(environment_of(pid), SESSION_VARIABLE):
        return f"pid {pid} ({_name_of(pid)}) was not started by relight"
    front = foreground_of(pid)
    if front != group_of(pid):
        return f"{_name_of(front) or 'something else'} (pid {front}) is in front of the agent"
    terminal = _input_of(pid)
    for member in members_of(front):
        if _name_of(member) in SHELLS and _input_of(member) == terminal:
            return (
                f"a shell ({_name_of(member)}, pid {member}) reads from its terminal, now or once the agent has ended"
            )
    return ""


def _name_of(pid: int) -> str:
    """The program's own file, which it cannot choose; its first word where that cannot be read."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return os.path.basename((words_of(pid) or [""])[0]).lstrip("-")


def _input_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/0")
    except OSError:
        return ""
