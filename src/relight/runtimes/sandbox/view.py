"""The file system as seen inside a sandbox: the system read-only, the workspace and the session's home writable.

Hidden are all home directories, /tmp, /run with the sockets of system services, and the directories the caller names
as private (the store, with its tokens and other sessions). A program inside a hidden directory is mounted read-only:
its directory, its package, and the interpreter of its first line.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from relight.errors import UsageError
from relight.system.platform import PROC

_HIDDEN: Final = ("/tmp", "/var/tmp", "/run", "/home", "/root", "/mnt", "/media")
_NAMES: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")
"""name resolution: what /etc/resolv.conf links to"""
_AS_ROOT: Final = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_KILL")
"""capabilities that a package manager run by root needs; none of them can change mounts"""
_XDG_VARIABLES: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
_MAX_LINKS: Final = 40
_FIRST_LINE_BYTES: Final = 256


def isolation(
    *, network: bool, new_session: bool, private: Sequence[str] = (), forgotten: Sequence[str] = ()
) -> list[str]:
    """bwrap's options that do not depend on the command. `forgotten`: environment variables to remove."""
    words = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if network else ["--unshare-net"]
    words += ["--new-session"] if new_session else []
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", *(word for one in _AS_ROOT for word in ("--cap-add", one))]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", PROC]
    for path in _outermost(_hidden(private)):
        words += ["--tmpfs", path]
    for path in _NAMES:
        words += ["--ro-bind-try", path, path]
    for variable in (*_XDG_VARIABLES, *forgotten):
        words += ["--unsetenv", variable]
    return words


def mounts(
    *, readable: Iterable[str], writable: Iterable[str], directory: str, private: Sequence[str] = ()
) -> list[str]:
    """bwrap's options that mount these paths over the hidden directories, each at its own path."""
    words: list[str] = []
    hidden = _hidden(private)
    for path in sorted(path for path in set(readable) if _is_in(path, hidden) and os.access(path, os.R_OK)):
        words += ["--ro-bind", path, path]
    # Later mounts cover earlier ones: a workspace inside a read-only package directory must stay writable.
    for path in sorted(set(writable)):
        words += ["--bind", path, path]
    return [*words, "--chdir", directory]


def checked(directory: str, private: Sequence[str] = ()) -> str:
    """The real path of a directory that may be writable; UsageError if it contains what the sandbox hides."""
    whole = os.path.realpath(directory)
    for path in private:
        if os.path.commonpath([whole, path]) == whole:
            hints = [
                "choose another directory for the session: --workspace DIR",
                "or another location for the store: RELIGHT_STORE",
            ]
            raise UsageError(f"{directory} contains relight's own files ({path}), which a sandbox hides", hints=hints)
    for path in ("/", *_hidden()):
        if os.path.commonpath([whole, path]) == whole:
            hints = ["choose a directory inside it: relight run --workspace DIR --runtime sandbox -- COMMAND"]
            raise UsageError(
                f"{directory} contains directories that a sandbox hides, and must not be writable", hints=hints
            )
    return whole


def roots_of(program: str, private: Sequence[str] = ()) -> list[str]:
    """The paths a program needs to run: its directory, every link on the way, its package, its interpreter."""
    found: list[str] = []
    for path in (program, *_interpreter_of(program)):
        for hop in _hops(path):
            where = os.path.dirname(hop)
            found.append(hop if where in _hidden(private) or where == "/" else where)
            found += _packages(hop, _hidden(private))
    return list(dict.fromkeys(found))


def _hops(path: str) -> Iterator[str]:
    for _ in range(_MAX_LINKS):
        yield os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _packages(path: str, hidden: Sequence[str]) -> Iterator[str]:
    """The npm tree, Python environment or bin-and-lib prefix that a file belongs to."""
    parents = list(Path(path).parents)
    yield from (str(one) for one in reversed(parents) if one.name == "node_modules")
    yield from (str(one) for one in parents[:3] if os.path.isfile(one / "pyvenv.cfg"))
    prefix = parents[1] if len(parents) > 1 and parents[0].name == "bin" else None
    if prefix is not None and os.path.isdir(prefix / "lib") and prefix.name != ".local" and str(prefix) not in hidden:
        yield str(prefix)


def _interpreter_of(program: str) -> list[str]:
    try:
        with open(program, "rb") as file:
            line = file.read(_FIRST_LINE_BYTES).split(b"\n")[0]
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = [word for word in os.fsdecode(line[2:]).split() if not word.startswith("-")]
    if len(words) > 1 and os.path.basename(words[0]) == "env":
        return [found] if (found := shutil.which(words[1])) else []
    return words[:1] if words and os.path.exists(words[0]) else []


def _hidden(private: Sequence[str] = ()) -> list[str]:
    homes = {os.path.realpath(os.path.expanduser("~")), _home_of_user()}
    paths = [*_HIDDEN, *(home for home in homes if home not in ("", "/") and not home.startswith("/home/")), *private]
    return list(dict.fromkeys(path for path in paths if os.path.isdir(path) and not os.path.islink(path)))


def _outermost(paths: Sequence[str]) -> list[str]:
    # Below a directory that is hidden already there is nothing to hide, and no mount point either.
    return [one for one in paths if not any(one != other and _is_in(one, [other]) for other in paths)]


def _home_of_user() -> str:
    try:
        return os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return ""


def _is_in(path: str, parents: Iterable[str]) -> bool:
    return any(os.path.commonpath([path, parent]) == parent for parent in parents)


def variables(home: str) -> dict[str, str]:
    """Environment variables that must match the sandbox's file system."""
    return {"HOME": home, "TMPDIR": "/tmp"}


def unique(paths: Sequence[str | Path]) -> list[str]:
    """The real paths, without duplicates."""
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))
