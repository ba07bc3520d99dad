"""Processes of this machine, identified by evidence in its process table, never by a remembered pid alone.

The part that all local runtimes share: whether a program exists, which processes belong to a session, which one
supervises it, and how they are ended. Without evidence nothing is found, so nothing is ended by mistake.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from relight.errors import Refused, UsageError
from relight.ports.runtime import PARENT_VARIABLE, SESSION_VARIABLE, SUPERVISOR_VARIABLE
from relight.system.process_facts import SERVICES, Facts
from relight.system.process_table import process_table

_POLL_SECONDS: Final = 0.02
_FIRST_LINE_BYTES: Final = 256


class LocalProcesses:
    """The part of a runtime that is the same for all processes of this machine."""

    persistent = False

    def environment(self) -> dict[str, str]:
        return {}

    def check(self, command: Sequence[str], directory: str) -> None:
        if not os.path.isdir(directory):  # unlike Path.is_dir, no error for a name that is too long
            raise UsageError(f"no such directory: {directory}")
        if not command:
            raise UsageError("no command given", hints=["relight run -- python agent.py"])
        program = program_of(command[0], directory)
        if program is None:
            raise UsageError(
                f"no program called {command[0]!r}",
                hints=["install it, or correct the command: one argument for each word"],
            )
        interpreter = missing_interpreter(program)
        if interpreter is not None:
            hints = [f"install it, or change the first line of {program}"]
            raise UsageError(f"{command[0]!r} needs the interpreter {interpreter!r}, which is missing", hints=hints)

    def orphans(self, session: str) -> list[int]:
        family = set(ancestors(os.getpid()))
        marked = [
            pid for pid in process_table().pids() if pid not in family and is_marked(environment_of(pid), session)
        ]
        return [pid for pid in marked if not any(map(serves_others, ancestors(pid)))]

    def holds_open(self, path: Path, session: str) -> bool | None:
        holders = pids_with_open(path)
        ours = (value_in(environment_of(pid), SESSION_VARIABLE) == session for pid in holders)
        return any(ours) if holders else None

    def end(self, pids: Sequence[int], *, seconds: float) -> None:
        # Start times are compared before each signal and poll: a pid may be reused by another process meanwhile.
        known = {pid: start_of(pid) for pid in pids}
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
            deadline = time.monotonic() + patience
            left = [pid for pid, start in known.items() if start and start_of(pid) == start]
            for pid in left:
                self.signal(pid, number)
            while time.monotonic() < deadline and any(start_of(pid) == known[pid] for pid in left):
                time.sleep(_POLL_SECONDS)

    def screen(self, handle: str) -> list[str] | None:
        return None

    def attach_command(self, handle: str) -> list[str] | None:
        return None

    def supervisor(self) -> str:
        return f"{os.getpid()}:{start_of(os.getpid())}"

    def supervisor_of(self, pid: int, session: str) -> int | None:
        environment = environment_of(pid)
        if marker(session) not in environment:
            return None
        number, _, start = value_in(environment, SUPERVISOR_VARIABLE).partition(":")
        return int(number) if number.isdigit() and start and start_of(int(number)) == start else None

    def signal(self, pid: int, number: int) -> bool:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            raise Refused(f"pid {pid} belongs to another user") from None
        return True


def program_of(program: str, directory: str) -> str | None:
    """The path of a program; a relative path is resolved against the directory it will run in."""
    search = directory if "/" in program and not program.startswith("/") else None
    if search is not None:
        program = os.path.join(search, program)
    from shutil import which  # slow to import, and most commands do not need it

    return which(program)


def missing_interpreter(program: str) -> str | None:
    """The interpreter in a script's first line, if it does not exist; else None."""
    try:
        with open(program, "rb") as script:
            first = script.read(_FIRST_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return None  # not readable, but perhaps executable
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words or not words[0].startswith(b"/"):
        return None
    interpreter = os.fsdecode(words[0])
    return None if os.path.exists(interpreter) else interpreter


def pids_with_open(path: Path) -> list[int]:
    """The processes that have this file open, as far as this user may see."""
    table, wanted = process_table(), os.path.realpath(path)
    return [pid for pid in table.pids() if wanted in table.files(pid)]


def marker(session: str) -> bytes:
    """The environment entry that identifies a session's processes."""
    return f"{SESSION_VARIABLE}={session}".encode()


def is_marked(environment: Sequence[bytes], session: str) -> bool:
    """Whether a process with these variables was started for this session, or by one that was."""
    own = value_in(environment, SESSION_VARIABLE)
    return (own or value_in(environment, PARENT_VARIABLE)) == session


def serves_others(pid: int) -> bool:
    """Whether it is a service shared by sessions, such as a daemon behind the screens of an agent."""
    # It has the environment of the session that happened to start it, but may work for any other: no orphan.
    program, first, *others = *words_of(pid), "", ""
    return any(one == first and later in others for one, later in SERVICES.get(os.path.basename(program), ()))


def environment_of(pid: int) -> list[bytes]:
    """The environment a process was started with; empty if it cannot be read."""
    return process_table().environment(pid)


def value_in(environment: Sequence[bytes], variable: str) -> str:
    """The value of a variable in a result of `environment_of`; empty if it is not set."""
    prefix = variable.encode() + b"="
    found = (entry[len(prefix) :] for entry in environment if entry.startswith(prefix))
    return next(found, b"").decode("utf-8", "surrogateescape")


def words_of(pid: int) -> list[str]:
    """The command line of a process."""
    return process_table().words(pid)


def name_of(pid: int) -> str:
    """The file name of its program, which a process cannot choose; its argv[0] if that cannot be read."""
    words = words_of(pid)
    return os.path.basename(process_table().executable(pid) or (words[0] if words else "")).lstrip("-")


def input_of(pid: int) -> str:
    """What its standard input is; equal for two processes that read from the same terminal."""
    return process_table().input(pid)


def start_of(pid: int) -> str:
    """Start time, to be compared only; empty if there is no such process, or it is a zombie."""
    facts = process_table().facts(pid)
    return facts.start if facts is not None and not facts.is_zombie else ""


def is_zombie(pid: int) -> bool:
    """Whether it has ended and was not waited for."""
    facts = process_table().facts(pid)
    return facts is not None and facts.is_zombie


def group_of(pid: int) -> int:
    """Its process group; 0 if it is gone."""
    facts = process_table().facts(pid)
    return facts.group if facts is not None else 0


def session_of(pid: int) -> int:
    """Its terminal session (setsid); 0 if it is gone."""
    facts = process_table().facts(pid)
    return facts.session if facts is not None else 0


def foreground_of(pid: int) -> int:
    """The foreground group of its terminal; 0 if it has none or is gone."""
    return process_table().foreground(pid)


def members_of(group: int) -> list[int]:
    """The living processes of a group."""
    # The kernel is asked for the groups, which is a hundred times faster than to read the table for each process.
    return [pid for pid in process_table().pids() if _is_in_group(pid, group) and start_of(pid)]


def _is_in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:  # it ended, or a kernel that does not tell of other users' processes
        return False


def children_of_ours() -> list[int]:
    """All children of this process, including re-parented orphans and zombies."""
    return process_table().children()


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    return [child for child, facts in living().items() if facts.parent == pid]


def ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent, and so on up to init."""
    while pid > 0:
        yield pid
        facts = process_table().facts(pid)
        pid = facts.parent if facts is not None else 0


def living() -> dict[int, Facts]:
    """All processes that have not ended."""
    table = process_table()
    found = ((pid, table.facts(pid)) for pid in table.pids())
    return {pid: facts for pid, facts in found if facts is not None and not facts.is_zombie}
