"""Runs a command on a simulated machine without Linux's special calls:

    tools/elsewhere.py [--linux-program PATH]... COMMAND [ARGUMENT ...]

No real Mac is at hand, so this takes from Linux what a Mac does not have, for the command and all it starts:

- /proc is an empty directory (a mount namespace of its own; as an ordinary user in a user namespace too);
- a seccomp filter refuses the calls in `REFUSED`, as an older kernel or another file system does;
- Python's modules lack the names that they lack on macOS: tools/elsewhere_python.py, loaded by every start of the
  environment's interpreter, because its lines are mounted over a .pth file of that environment.

psutil and ps ask the system itself on macOS; here they need a real procfs, which is mounted under a random path that
only they are told. What stays Linux: the name of the platform, file systems, signals, tmux and the agents' programs.

A program that was built for Linux may itself not start without /proc, as the real agents do not: --linux-program names
its file, and that program alone sees /proc (as root only). A Python that it starts hides it again. Of parent-death
signals SIGTERM is then not refused: Codex insists on it for its tools, and relight asks first whether it can have any.

Where the kernel forbids such a machine this says so and ends with `FORBIDDEN`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import signal
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

FORBIDDEN: Final = 77
"""exit status: the kernel forbids such a machine, so nothing was run"""
VARIABLE: Final = "RELIGHT_ELSEWHERE"
"""set for the command; the tests choose by it what they run, relight itself never reads it"""

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 4096, 16384, 1 << 18
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data

_X86_64, _AARCH64 = 0xC000003E, 0xC00000B7
_ARCHITECTURES: Final = {"x86_64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}

_DEATH_SIGNAL: Final = "prctl(PR_SET_PDEATHSIG)"


class Refusal(NamedTuple):
    """A system call that fails: always, or where one argument has (or has not) a value."""

    name: str
    x86_64: int | None
    aarch64: int | None
    error: int
    argument: int | None = None
    value: int = 0
    unless: bool = False
    """refused where the argument differs from the value, instead of where it equals it"""


REFUSED: Final = (
    Refusal("openat2", 437, 437, errno.ENOSYS),
    Refusal("renameat2 with flags", 316, 276, errno.EINVAL, argument=4, value=0, unless=True),
    Refusal("pidfd_open", 434, 434, errno.ENOSYS),
    Refusal("pidfd_send_signal", 424, 424, errno.ENOSYS),
    Refusal("pidfd_getfd", 438, 438, errno.ENOSYS),
    Refusal("inotify_init", 253, None, errno.ENOSYS),
    Refusal("inotify_init1", 294, 26, errno.ENOSYS),
    Refusal("fanotify_init", 300, 262, errno.ENOSYS),
    Refusal(_DEATH_SIGNAL, 157, 167, errno.EINVAL, argument=0, value=1),
    Refusal("prctl(PR_SET_CHILD_SUBREAPER)", 157, 167, errno.EINVAL, argument=0, value=36),
    Refusal("fallocate", 285, 47, errno.EOPNOTSUPP),  # so that the C library writes zeros instead
    Refusal("copy_file_range", 326, 285, errno.ENOSYS),
    Refusal("ioctl(FICLONE)", 16, 29, errno.EOPNOTSUPP, argument=1, value=0x40049409),
    Refusal("ioctl(FICLONERANGE)", 16, 29, errno.EOPNOTSUPP, argument=1, value=0x4020940D),
    Refusal("memfd_create", 319, 279, errno.ENOSYS),
)

_LAUNCHER: Final = """\
#!{python} -I
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
program, procfs = {program!r}, {procfs!r}
for done in (
    libc.unshare(0x00020000),
    libc.umount2(program.encode(), 2),
    libc.mount(procfs.encode(), b"/proc", b"", ctypes.c_ulong(4096 | 16384), None),
):
    if done:
        sys.exit("cannot show /proc to " + program + ": " + os.strerror(ctypes.get_errno()))
os.execv(program, [program, *sys.argv[1:]])
"""


_REFUSALS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOSPC, errno.EUSERS})
"""errors by which a kernel says that it does not offer or allow a namespace, a mount or a filter"""


class Forbidden(Exception):
    """The kernel does not let us make such a machine."""


def main(command: list[str]) -> int:
    """Run the command there and return its exit status."""
    programs = []
    while command[:1] == ["--linux-program"]:
        programs.append(command[1])
        command = command[2:]
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    # The directory is made and removed outside; what is mounted on it exists only inside.
    scratch = Path(tempfile.mkdtemp(prefix="relight-elsewhere-"))
    try:
        child = os.fork()
        if child == 0:
            _become(scratch, command, programs)
        while True:
            try:
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            except KeyboardInterrupt:
                continue  # the command got the same Ctrl-C, and decides
    finally:
        shutil.rmtree(scratch)


def _become(scratch: Path, command: list[str], programs: Sequence[str]) -> NoReturn:
    try:
        isolate(scratch, programs)
        os.environ[VARIABLE] = "1"
        os.execvp(command[0], command)
    except Forbidden as error:
        print(f"not run: this kernel forbids a machine without Linux's special calls: {error}", file=sys.stderr)
        os._exit(FORBIDDEN)
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


def isolate(scratch: Path, programs: Sequence[str] = ()) -> None:
    """Put this process, and all it will start, on such a machine. `scratch` must outlive it."""
    procfs, lines = scratch / os.urandom(8).hex(), scratch / "python"
    user, group = os.geteuid(), os.getegid()
    _checked("unshare", _libc.unshare(_CLONE_NEWNS | (0 if user == 0 else _CLONE_NEWUSER)))
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    procfs.mkdir()
    _mount("/proc", str(procfs), "", _MS_BIND | _MS_REC)
    lines.mkdir()
    _mount_python(lines, procfs)
    _write_ps(scratch / "bin", procfs)
    for number, program in enumerate(programs):
        _mount_launcher(scratch / f"launcher{number}", program, procfs)
    _mount("none", "/proc", "tmpfs", _MS_RDONLY)
    _refuse_calls(insisting=bool(programs))


def _mount_python(directory: Path, procfs: Path) -> None:
    """Have every start of this interpreter load tools/elsewhere_python.py, whatever its environment says."""
    packages = Path(sysconfig.get_path("purelib"))
    covered = next(iter(sorted(packages.glob("*relight*.pth"))), None)
    if covered is None:
        raise SystemExit(f"no .pth file of relight in {packages}: run this with the environment that make builds")
    module = Path(__file__).with_name("elsewhere_python.py").read_text(encoding="utf-8")
    (directory / "relight_elsewhere.py").write_text(f"{module}\nbegin({str(procfs)!r})\n", encoding="utf-8")
    written = directory / covered.name
    before = covered.read_text(encoding="utf-8").rstrip("\n")
    written.write_text(f"{before}\n{directory}\nimport relight_elsewhere\n", encoding="utf-8")
    _mount(str(written), str(covered), "", _MS_BIND)


def _write_ps(directory: Path, procfs: Path) -> None:
    """A `ps` before the real one, which answers only what relight asks on macOS: ps -o tpgid= -p PID"""
    directory.mkdir()
    lines = ["#!/bin/sh", f'read -r line < "{procfs}/$4/stat" || exit 1', "set -- ${line##*) }", 'echo "$6"', ""]
    (directory / "ps").write_text("\n".join(lines), encoding="ascii")
    (directory / "ps").chmod(0o755)
    os.environ["PATH"] = f"{directory}:{os.environ.get('PATH', os.defpath)}"


def _mount_launcher(script: Path, program: str, procfs: Path) -> None:
    """Cover a program by one that starts it where /proc is seen, under its own name."""
    program = os.path.realpath(program)
    script.write_text(_LAUNCHER.format(python=sys.executable, program=program, procfs=str(procfs)), encoding="utf-8")
    script.chmod(0o755)
    _mount(str(script), program, "", _MS_BIND)


def _refuse_calls(*, insisting: bool) -> None:
    architecture = _ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise Forbidden(f"the numbers of system calls on {platform.machine()} are not known here")
    filters = b"".join(filter_of(architecture, insisting=insisting))
    held = ctypes.create_string_buffer(filters, len(filters))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(filters) // 8, ctypes.addressof(held)))
    # No PR_SET_NO_NEW_PRIVS: this process is root, here or in its user namespace, and may do without.
    _checked("seccomp", _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0))


def filter_of(architecture: int, *, insisting: bool = False) -> list[bytes]:
    """The BPF program that refuses `REFUSED`; calls of another architecture (32 bit) pass."""
    found = [_instruction(_LOAD, _ARCHITECTURE_AT), _jump(architecture, then=1, otherwise=0), _give(_RET_ALLOW)]
    for refusal in REFUSED:
        number = refusal.x86_64 if architecture == _X86_64 else refusal.aarch64
        if number is None:
            continue
        body = [_give(_RET_ERRNO | refusal.error)]
        if insisting and refusal.name == _DEATH_SIGNAL:
            body = [_read(1), _jump(signal.SIGTERM, then=len(body), otherwise=0), *body]
        if refusal.argument is not None:
            here, past = (len(body), 0) if refusal.unless else (0, len(body))
            body = [_read(refusal.argument), _jump(refusal.value, then=here, otherwise=past), *body]
        found += [_instruction(_LOAD, _NUMBER_AT), _jump(number, then=0, otherwise=len(body)), *body]
    return [*found, _give(_RET_ALLOW)]


def _instruction(code: int, operand: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, operand)


def _read(argument: int) -> bytes:
    return _instruction(_LOAD, _ARGUMENTS_AT + 8 * argument)  # the low half: none of these needs more than 32 bits


def _jump(value: int, *, then: int, otherwise: int) -> bytes:
    return _instruction(_EQUAL, value, then, otherwise)


def _give(result: int) -> bytes:
    return _instruction(_RETURN, result)


_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    arguments = (ctypes.c_char_p(text.encode()) for text in (source, target, kind))
    _checked(f"mount {target}", _libc.mount(*arguments, ctypes.c_ulong(flags), None))


def _checked(what: str, result: int) -> None:
    """Forbidden where the kernel refuses; OSError for any other failure, which is a fault of this file."""
    if not result:
        return
    code = ctypes.get_errno()
    why = f"{what}: {os.strerror(code)}"
    raise Forbidden(why) if code in _REFUSALS else OSError(code, why)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
