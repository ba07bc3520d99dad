"""The hook command: passes an agent's hook event to the supervisor, and prints the reply. Standard library only.

It runs at every tool call, so it imports as little as possible and does not parse the event. If the supervisor does not
answer, another process records the event in the store directly. It exits with 0 whatever happens, so that a hook never
stops the agent. One exception: if calls need approval, its argument is the reply that denies a call, which is given for
every call that cannot be recorded; otherwise a full disk would approve calls. It is an argument because an agent may
not pass its environment on.
"""

import os
import socket
import sys
from collections.abc import Callable

TIMEOUT_SECONDS = 20.0
BLOCK_BYTES = 65536
ADDRESS_BYTES = 103  # of a socket's path: 104 with a NUL on macOS, 108 on Linux
SHORT_NAME_BYTES = 16


def ask(path: str, payload: bytes) -> bytes:
    """Send the event to the supervisor; its reply. OSError if it does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(TIMEOUT_SECONDS)
        at_address(path, channel.connect)
        channel.sendall(payload)
        channel.shutdown(socket.SHUT_WR)
        return answer_of(channel)


def at_address(path: str, act: Callable[[str], None]) -> None:
    """Bind or connect a socket at this path, however long. A path that fits into no address is reached through a
    short link to its directory, which exists only during the call."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        act(path)
        return
    directory, name = os.path.split(os.path.abspath(path))
    short = short_directory()
    try:
        os.symlink(directory, f"{short}/d")
        act(f"{short}/d/{name}")
    finally:
        for remove, what in ((os.unlink, f"{short}/d"), (os.rmdir, short)):
            try:
                remove(what)
            except OSError:
                continue  # not made, or removed by a cleaner of temporary files


def short_directory() -> str:
    """A new directory with a short path, which only this user can enter. OSError if none can be made."""
    for parent in (os.environ.get("TMPDIR", "/tmp"), "/tmp", "/var/tmp"):
        short = f"{parent}/relight-{os.urandom(8).hex()}"
        if len(os.fsencode(short)) > ADDRESS_BYTES - SHORT_NAME_BYTES:
            continue
        try:
            os.mkdir(short, 0o700)  # fails if it exists
        except OSError:
            continue
        return short
    raise OSError("no directory for a socket with a short path: neither TMPDIR nor /tmp nor /var/tmp can be used")


def answer_of(channel: socket.socket) -> bytes:
    """The reply after its leading `+`, before which there may be spaces. OSError for anything else, or nothing: the
    event was not recorded, or the supervisor died before it replied."""
    blocks = []
    while block := channel.recv(BLOCK_BYTES):
        blocks.append(block)
    reply = b"".join(blocks).lstrip(b" ")
    if reply[:1] != b"+":
        raise OSError(f"not recorded: {reply[1:200].decode('utf-8', 'replace')}" if reply else "no answer")
    return reply[1:]


def write_directly(payload: bytes) -> bytes:
    """Record the event without a supervisor, under the lease that this agent was started with; the reply."""
    import subprocess

    command = [sys.executable, "-P", "-m", "relight.processes.hook"]
    done = subprocess.run(command, input=payload, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise OSError(f"direct write: {done.stderr[-400:].decode('utf-8', 'replace')}")
    return done.stdout


def complain(error: BaseException) -> None:
    """Append an error to our own log; the agent must not see it."""
    log = os.environ.get("RELIGHT_HOOK_LOG")
    if log:
        line = f"{type(error).__name__}: {error}".replace("\n", " ") + "\n"
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line.encode("utf-8", "backslashreplace"))
        os.close(descriptor)


def deny() -> None:
    """If calls need approval, reply that this one must not run."""
    if len(sys.argv) < 2:
        return
    try:
        sys.stdout.buffer.write(sys.argv[1].encode())
        sys.stdout.buffer.flush()
    except BaseException:  # the reply could not be written: exit code 2 blocks the call, whatever was printed
        os._exit(2)


def main() -> None:
    """Read an event from stdin, record it, write the reply to stdout."""
    try:
        payload = sys.stdin.buffer.read()
        path = os.environ.get("RELIGHT_HOOK_SOCKET")
        if not path:
            deny()  # not started by relight, or the agent did not pass its environment on
            return
        try:
            answer = ask(path, payload)
        except OSError as error:
            complain(error)
            answer = write_directly(payload)
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    except BaseException as error:  # the agent continues, except with a call that needs approval
        deny()
        try:
            complain(error)
        except OSError:
            return


if __name__ == "__main__":
    main()
