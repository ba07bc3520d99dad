"""Which process would read text typed into a pane: the agent, or one that must not receive it, such as a shell."""

from __future__ import annotations

from typing import Final

from relight.system.processes import (
    foreground_of,
    group_of,
    input_of,
    members_of,
    name_of,
    start_of,
)

_SHELLS: Final = "sh ash bash busybox csh dash elvish fish ksh ksh93 mksh nu oksh posh pwsh rbash tcsh xonsh yash zsh"
SHELLS: Final = frozenset(_SHELLS.split())


def in_the_way(pid: int, session: str) -> str:
    """Why text must not be typed to the process with this pid, which works for this session; empty if it is the agent
    itself that would read it."""
    if not start_of(pid):
        return "the agent has ended"
    if not session:
        return f"pid {pid} ({name_of(pid)}) was not started by relight"
    front = foreground_of(pid)
    if not front:
        return "which process has the terminal's foreground is not known"
    if front != group_of(pid):
        return f"{name_of(front) or 'another process'} (pid {front}) has the terminal's foreground, not the agent"
    terminal = input_of(pid)
    # A shell in the agent's own group would execute the text as a command, at once or when the agent exits.
    for member in members_of(front):
        if name_of(member) in SHELLS and input_of(member) == terminal:
            return f"a shell ({name_of(member)}, pid {member}) reads from its terminal, now or once the agent has ended"
    return ""
