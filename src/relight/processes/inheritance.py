"""Whose program is this process? What a supervisor hands to the program it starts, and what everything else inherits.

`relight run` names its session in the environment, which every process below it inherits. The session is for the
program that was started: the started process itself, or the one below launchers that start exactly one program and wait
for it (`uv run`, `timeout`, `env`). Any other process below is a child: sessions that it opens are its own, and are
recorded as begun by this one. It may take the session only by asking for it by name, while nobody has.

Once it is taken the name is gone from the environment, so that what the program starts from then on knows its parent.
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
from relight.system.processes import ancestors, start_of, words_of

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
"""programs that start exactly one other, wait for it and end with its code"""
_PLACE: Final = "tmux"
"""what a pane shows is what was started there, whoever began the server"""
_DEEPEST: Final = 64
_TAKEN: Final[dict[int, str]] = {}
"""the session that this process took, by its pid: a fork of it is another process"""


def handed(environment: MutableMapping[str, str]) -> dict[str, str]:
    """What this process may open as its own (`session`, held under `owner`; `named`: only where it asks for it by
    name), and the session that a session of its own is begun by (`parent`)."""
    session, parent = environment.get(SESSION_VARIABLE, ""), environment.get(PARENT_VARIABLE, "")
    if _TAKEN.get(os.getpid()) == parent:
        parent = ""  # what it told those it starts is not meant for itself
    if not session:
        return {"parent": parent} if parent else {}
    if environment.get(AGENT_VARIABLE):
        return {"parent": session}  # a program that a coding agent runs is not the session itself
    found = {"session": session, "owner": environment.get(OWNER_VARIABLE, ""), "parent": session}
    if not is_the_program(environment.get(SUPERVISOR_VARIABLE, "")):
        found["named"] = "1"
    return {key: value for key, value in found.items() if value}


def took(session: str, environment: MutableMapping[str, str]) -> None:
    """This process is the program of that session from here on: what it starts is its child."""
    if environment.get(SESSION_VARIABLE) == session:
        _TAKEN[os.getpid()] = session
        environment.pop(SESSION_VARIABLE, None)
        environment.pop(OWNER_VARIABLE, None)
        environment[PARENT_VARIABLE] = session


def is_the_program(supervisor: str) -> bool:
    """Are there only launchers between this process and the supervisor (pid and start time) that named the session?

    Where the supervisor cannot be seen, inside of a sandbox or after its death, the way up ends at the first process.
    """
    number, _, start = supervisor.partition(":")
    for pid in islice(ancestors(os.getppid()), _DEEPEST):
        if str(pid) == number and start_of(pid) == start:
            return True
        program = _program_of(pid)
        if program not in LAUNCHERS:
            return pid == 1 or program == _PLACE
    return True


def _program_of(pid: int) -> str:
    """The name of a program; of a script, that of the script."""
    words = [os.path.basename(word) for word in words_of(pid)[:3]]
    name = words[0].split(":", maxsplit=1)[0] if words else ""
    if name.startswith("python") and len(words) > 1:
        return words[2] if words[1] == "-m" and len(words) > 2 else words[1]
    return name
