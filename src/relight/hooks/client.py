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

PATIENCE_SECONDS = 20.0
BLOCK_BYTES = 65536


def ask(path: str, payload: bytes) -> bytes:
    """Send the event to the supervisor; its reply. OSError if it does not answer."""
    directory, name = os.path.split(path)
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(PATIENCE_SECONDS)
            channel.connect(f"/proc/self/fd/{parent}/{name}")  # the path may be too long for a socket address
            channel.sendall(payload)
            channel.shutdown(socket.SHUT_WR)
            return answer_of(channel)
    finally:
        os.close(parent)


def answer_of(channel: socket.socket) -> bytes:
    """The reply after its leading `+`. OSError for anything else, or nothing: the event was not recorded."""
    blocks = []
    while block := channel.recv(BLOCK_BYTES):
        blocks.append(block)
    reply = b"".join(blocks)
    if reply[:1] != b"+":
        raise OSError(f"not recorded: {reply[1:200].decode('utf-8', 'replace')}" if reply else "no answer")
    return reply[1:]


def write_directly(payload: bytes) -> bytes:
    """Record the event without a supervisor, under the lease that this agent was started with; the reply."""
    import subprocess

    command = [sys.executable, "-P", "-m", "relight.processes.hook"]
    done = subprocess.run(command, input=payload, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
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
