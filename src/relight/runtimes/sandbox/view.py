"""What can be seen from inside: the system to read, the workspace and a home of the session's own to write.

Hidden are the homes of all people, /tmp, /run with the sockets of the machine's services, and whatever else the caller
names as private (the store with its tokens and other sessions). A program that lies in a hidden place is shown, to
read: its directory, its package, and what its first line calls.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from relight.errors import UsageError

_HIDDEN: Final = ("/tmp", "/var/tmp", "/run", "/home", "/root", "/mnt", "/media")
_NAMES: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")
"""how names are looked up; /etc/resolv.conf leads there"""
_AS_ROOT: Final = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_KILL")
"""what a package manager needs of root; nothing that could change the view"""
_HOMES_ELSEWHERE: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
_LINKS: Final = 40
_FIRST_LINE: Final = 256


def walls(*, network: bool, new_session: bool, private: Sequence[str] = (), forgotten: Sequence[str] = ()) -> list[str]:
    """The options that do not depend on what runs inside. `forgotten`: variables it must not see."""
    words = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if network else ["--unshare-net"]
    words += ["--new-session"] if new_session else []
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", *(word for one in _AS_ROOT for word in ("--cap-add", one))]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for place in _outermost(_hidden(private)):
        words += ["--tmpfs", place]
    for place in _NAMES:
        words += ["--ro-bind-try", place, place]
    for variable in (*_HOMES_ELSEWHERE, *forgotten):
        words += ["--unsetenv", variable]
    return words


def openings(
    *, readable: Iterable[str], writable: Iterable[str], directory: str, private: Sequence[str] = ()
) -> list[str]:
    """What is let through the walls; each at its own path, those to write last."""
    words: list[str] = []
    hidden = _hidden(private)
    for path in sorted(path for path in set(readable) if _is_in(path, hidden) and os.access(path, os.R_OK)):
        words += ["--ro-bind", path, path]
    for path in sorted(set(writable)):
        words += ["--bind", path, path]
    return [*words, "--chdir", directory]


def checked(directory: str, private: Sequence[str] = ()) -> str:
    """A directory that may be written to. UsageError where that would open what is hidden."""
    whole = os.path.realpath(directory)
    for place in private:
        if os.path.commonpath([whole, place]) == whole:
            hints = [
                "choose a directory of its own for it: --workspace DIR",
                "or keep the store elsewhere: RELIGHT_STORE",
            ]
            raise UsageError(f"{directory}: relight's own files lie in it ({place}); a sandbox hides them", hints=hints)
    for place in ("/", *_hidden()):
        if os.path.commonpath([whole, place]) == whole:
            hints = ["choose a directory of its own: relight run --workspace DIR --runtime sandbox -- COMMAND"]
            raise UsageError(f"{directory}: to write there would open the sandbox", hints=hints)
    return whole


def roots_of(program: str, private: Sequence[str] = ()) -> list[str]:
    """What must be seen for a program to run: where it lies, every link on the way, its package, its interpreter."""
    found: list[str] = []
    for path in (program, *_interpreter_of(program)):
        for hop in _hops(path):
            where = os.path.dirname(hop)
            found.append(hop if where in _hidden(private) or where == "/" else where)
            found += _packages(hop, _hidden(private))
    return list(dict.fromkeys(found))


def _hops(path: str) -> Iterator[str]:
    for _ in range(_LINKS):
        yield os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _packages(path: str, hidden: Sequence[str]) -> Iterator[str]:
    """The whole of an npm tree, a Python environment or an installation with bin and lib around a file."""
    parents = list(Path(path).parents)
    yield from (str(one) for one in reversed(parents) if one.name == "node_modules")
    yield from (str(one) for one in parents[:3] if os.path.isfile(one / "pyvenv.cfg"))
    prefix = parents[1] if len(parents) > 1 and parents[0].name == "bin" else None
    if prefix is not None and os.path.isdir(prefix / "lib") and prefix.name != ".local" and str(prefix) not in hidden:
        yield str(prefix)


def _interpreter_of(program: str) -> list[str]:
    try:
        with open(program, "rb") as file:
            line = file.read(_FIRST_LINE).split(b"\n")[0]
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
    places = [*_HIDDEN, *(home for home in homes if home not in ("", "/") and not home.startswith("/home/")), *private]
    return list(dict.fromkeys(place for place in places if os.path.isdir(place) and not os.path.islink(place)))


def _outermost(places: Sequence[str]) -> list[str]:
    """Without those that lie in another one: there is nothing left of them to hide, and nothing to mount on."""
    return [one for one in places if not any(one != other and _is_in(one, [other]) for other in places)]


def _home_of_user() -> str:
    try:
        return os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return ""


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(os.path.commonpath([path, place]) == place for place in places)


def variables(home: str) -> dict[str, str]:
    """What the agent is told of its view."""
    return {"HOME": home, "TMPDIR": "/tmp"}


def unique(paths: Sequence[str | Path]) -> list[str]:
    """Absolute, each once."""
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))
