"""The hook command: hands what the agent says to the supervisor, and its answer back. Standard library alone.

It runs at every tool use, so it starts as little as it can: no package, no JSON, bytes in and bytes out. Where the
supervisor does not answer, the journal is written directly by another process. It ends with 0 whatever happens: a
hook of ours must not stop the agent. One exception: where calls need a person's approval, its one argument is the
answer that denies a call, given for every call about which nothing could be recorded. Without that a full disk would
approve it; and it stands in the command line, because an environment can be lost on the way here.
"""

import os
import socket
import sys

PATIENCE_SECONDS = 20.0
BLOCK_BYTES = 65536


def ask(path: str, payload: bytes) -> bytes:
    """One exchange with the supervisor. OSError where there is none."""
    directory, name = os.path.split(path)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(PATIENCE_SECONDS)
            channel.connect(f"/proc/self/fd/{place}/{name}")  # a path of any length
            channel.sendall(payload)
            channel.shutdown(socket.SHUT_WR)
            return answer_of(channel)
    finally:
        os.close(place)


def answer_of(channel: socket.socket) -> bytes:
    """`+` and the answer. Anything else, or nothing, means that it was not recorded."""
    blocks = []
    while block := channel.recv(BLOCK_BYTES):
        blocks.append(block)
    said = b"".join(blocks)
    if said[:1] != b"+":
        raise OSError(f"not recorded: {said[1:200].decode('utf-8', 'replace')}" if said else "no answer")
    return said[1:]


def write_directly(payload: bytes) -> bytes:
    """Without a supervisor: the journal itself, under the lease that this agent was started with."""
    import subprocess

    command = [sys.executable, "-P", "-m", "relight.processes.hook"]
    done = subprocess.run(command, input=payload, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    if done.returncode:
        raise OSError(f"direct write: {done.stderr[-400:].decode('utf-8', 'replace')}")
    return done.stdout


def complain(error: BaseException) -> None:
    """One line in our own log; nowhere else."""
    log = os.environ.get("RELIGHT_HOOK_LOG")
    if log:
        line = f"{type(error).__name__}: {error}".replace("\n", " ") + "\n"
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, line.encode("utf-8", "backslashreplace"))
        os.close(descriptor)


def deny() -> None:
    """Where calls need approval: the agent is told not to run this one."""
    if len(sys.argv) < 2:
        return
    try:
        sys.stdout.buffer.write(sys.argv[1].encode())
        sys.stdout.buffer.flush()
    except BaseException:  # not even that could be said: 2 blocks the call, whatever was printed
        os._exit(2)


def main() -> None:
    """From stdin to stdout."""
    try:
        payload = sys.stdin.buffer.read()
        path = os.environ.get("RELIGHT_HOOK_SOCKET")
        if not path:
            deny()  # not started by relight, or its environment was taken away
            return
        try:
            answer = ask(path, payload)
        except OSError as error:
            complain(error)
            answer = write_directly(payload)
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    except BaseException as error:  # whatever it is, the agent goes on, but for a call that needs approval
        deny()
        try:
            complain(error)
        except OSError:
            return


if __name__ == "__main__":
    main()
