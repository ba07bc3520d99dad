"""The script that a pane runs, which becomes the agent: `python -I -S launch.py FILE`.

FILE contains, separated by NULs: the number of words of the command, the directory, the words, the variables. It is
removed before the agent starts. Variables that describe the terminal stay as tmux set them. If the agent cannot be
started the reason is written to FILE.failed, for the process that called spawn.
"""

from __future__ import annotations

import os
import signal
import sys

OF_THE_TERMINAL = (b"TERM", b"TMUX", b"TMUX_PANE", b"TERM_PROGRAM", b"TERM_PROGRAM_VERSION")


def pack(command: list[bytes], directory: bytes, environment: dict[bytes, bytes]) -> bytes:
    """The content of FILE for this command."""
    entries = [name + b"=" + value for name, value in environment.items() if name not in OF_THE_TERMINAL]
    return b"\0".join([b"%d" % len(command), directory, *command, *entries])


def main(path: str) -> None:
    with open(path, "rb") as file:
        parts = file.read().split(b"\0")
    os.unlink(path)
    end = 2 + int(parts[0])
    directory, command = parts[1], parts[2:end]
    environment = dict(entry.split(b"=", 1) for entry in parts[end:])
    environment |= {name: os.environb[name] for name in OF_THE_TERMINAL if name in os.environb}
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the agent would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(directory)
        os.execvpe(command[0], command, environment)
    except (OSError, ValueError) as error:
        with open(path + ".failed", "w", encoding="utf-8") as report:
            report.write(str(error))
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1])
