"""Messages between the demo's processes: one request and one reply, a JSON line each, over a Unix socket.

No port and no network. A process whose parent is gone ends by itself.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any, Final

SOCKET: Final = "../world/socket"
"""from an agent's directory: relative, because the length of a socket path is limited"""
REPLY_SECONDS: Final = 120.0


def ask(op: str, run: str, **fields: Any) -> Any:
    """Send a request to the world; ConnectionError if it does not answer."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(REPLY_SECONDS)
        wire.connect(SOCKET)
        wire.sendall(json.dumps({"op": op, "run": run, **fields}).encode() + b"\n")
        with wire.makefile("rb") as replies:
            line = replies.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("the world closed the connection")
    return json.loads(line)


def say_ready() -> None:
    """Report to the parent that the work begins."""
    print("ready", flush=True)


def end_with_parent() -> None:
    """End this process when the parent's end of our standard input closes, however the parent died."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin: a thread blocked in its buffer aborts the interpreter at exit
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()
