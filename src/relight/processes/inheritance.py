"""Which process may open the session that a supervisor passed down in the environment.

`relight run` names its session in environment variables, which every descendant inherits. The session is meant for the
started program: the process itself, or the one below launchers that start exactly one program and wait for it
(`uv run`, `timeout`, `env`). Any other descendant is a child: the sessions it opens are new ones, recorded with this
one as their parent. It may open the inherited session only by name, while no process has.

Once the session is open the variables are removed, so that later child processes see only their parent.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from itertools import islice
from typing import Final

from relight.ports.runtime import (
    AGENT_VARIABLE,
    OWNER_VARIABLE,
    PARENT_VARIABLE,
    SESSION_VARIABLE,
    SUPERVISOR_VARIABLE,
)

LAUNCHERS: Final = frozenset(
    [
        "bwrap",
        "caffeinate",
        "chrt",
        "conda",
        "direnv",
        "docker-init",
        "doas",
        "dotenv",
        "dumb-init",
        "env",
        "firejail",
        "hatch",
        "ionice",
        "mamba",
        "micromamba",
        "mise",
        "nice",
        "nohup",
        "numactl",
        "pdm",
        "pipenv",
        "pixi",
        "poetry",
        "rye",
        "setsid",
        "stdbuf",
        "strace",
        "sudo",
        "systemd-run",
        "taskset",
        "time",
        "timeout",
        "tini",
        "unshare",
        "uv",
        "uvx",
    ]
)
"""programs that start exactly one other, wait for it and exit with its code"""
_TERMINAL: Final = "tmux"
_MAX_ANCESTORS: Final = 64
_OUTSIDE: Final = 0
"""a process group whose leader is outside the pid namespace, as in a sandbox"""
_TAKEN: Final[dict[int, str]] = {}
"""pid to the session this process opened; keyed by pid because a fork inherits the dictionary but not the session"""


def handed(environment: MutableMapping[str, str]) -> dict[str, str]:
    """What this process inherits: `session`, held under `owner`, which it may open (with `named`: only by its name),
    and `parent`, which sessions it begins are recorded under."""
    session, parent = environment.get(SESSION_VARIABLE, ""), environment.get(PARENT_VARIABLE, "")
    if _TAKEN.get(os.getpid()) == parent:
        parent = ""  # set by `took` for our children: this process is not its own child
    if not session:
        return {"parent": parent} if parent else {}
    if environment.get(AGENT_VARIABLE):
        return {"parent": session}  # a tool of a coding agent: the agent is the session's program, not its tools
    found = {"session": session, "owner": environment.get(OWNER_VARIABLE, ""), "parent": session}
    if not is_the_program(environment.get(SUPERVISOR_VARIABLE, "")):
        found["named"] = "1"
    return {key: value for key, value in found.items() if value}


def took(session: str, environment: MutableMapping[str, str]) -> None:
    """Record that this process opened the inherited session: processes it starts are children from here on."""
    if environment.get(SESSION_VARIABLE) == session:
        _TAKEN[os.getpid()] = session
        environment.pop(SESSION_VARIABLE, None)
        environment.pop(OWNER_VARIABLE, None)
        environment[PARENT_VARIABLE] = session


def is_the_program(supervisor: str) -> bool:
    """Whether only launchers are between this process and its supervisor, given as "PID:START"."""
    from relight.system.processes import ancestors, start_of

    number, _, start = supervisor.partition(":")
    top = os.getpid()
    for pid in islice(ancestors(os.getppid()), _MAX_ANCESTORS):
        # The start time is compared too, because a pid alone may have been reused after the supervisor's death.
        if str(pid) == number and start_of(pid) == start:
            return not _is_orphan(top, pid)
        program = _program_of(pid)
        if program not in LAUNCHERS:
            # In a sandbox, or after the supervisor's death, the walk ends at init; in a pane it ends at the tmux
            # server, which runs what the supervisor asked for, whichever process started that server.
            return (pid == 1 or program == _TERMINAL) and not _is_orphan(top, pid)
        top = pid
    return True


def _is_orphan(pid: int, parent: int) -> bool:
    """Whether a process became a child of the supervisor, or of init, because its own parent has ended: it is still in
    the process group of the program that was started, which leads that group."""
    try:
        return os.getpgid(pid) not in (pid, os.getpgid(parent), _OUTSIDE)
    except OSError:
        return False


def _program_of(pid: int) -> str:
    """The base name of a process's program; for an interpreter, that of its script or module."""
    from relight.system.processes import words_of

    words = [os.path.basename(word) for word in words_of(pid)[:3]]
    name = words[0].split(":", maxsplit=1)[0] if words else ""
    if name.startswith("python") and len(words) > 1:
        return words[2] if words[1] == "-m" and len(words) > 2 else words[1]
    return name
