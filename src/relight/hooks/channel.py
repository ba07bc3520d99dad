"""The supervisor's hook socket, in a private directory, with one thread per request."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Final

from relight.hooks import client
from relight.ports.hooks import LOG_VARIABLE, SOCKET_VARIABLE, Answer, Held
from relight.system.platform import Platform, this_platform

PAYLOAD_BYTES: Final = 64 * 1024 * 1024
TIMEOUT_SECONDS: Final = 10.0
AT_ONCE: Final = 64
SPACE_SECONDS: Final = 4.0
"""between two signs of life to a hook that is held; the client gives up after 20 s without one"""
MAX_SPACES: Final = 24 * 900
"""a hook is held for a day at most, then its call is denied"""
_NAME: Final = "hook"
_SO_PEERCRED: Final = 17
_LOCAL_PEERCRED: Final = 1
_CREDENTIALS_BYTES: Final = 128


class SocketListener:
    """An open hook socket and its accepting thread."""

    def __init__(self, directory: Path, answer: Answer) -> None:
        self._answer = answer
        self._path = directory / _NAME
        self._log = directory / "hook.log"
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.at_address(str(self._path), self._socket.bind)
        self._path.chmod(0o600)
        self._socket.listen(AT_ONCE)
        self._thread = threading.Thread(target=self._accept, name="relight-hooks", daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the client finds the socket and the log."""
        return {SOCKET_VARIABLE: str(self._path), LOG_VARIABLE: str(self._log)}

    def close(self) -> None:
        """Close the socket. Clients then write to the store directly, and are refused if the lease is lost."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)
        self._thread.join(TIMEOUT_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                channel, _ = self._socket.accept()
            except OSError:
                return
            self._slots.acquire()
            threading.Thread(target=self._exchange, args=(channel,), name="relight-hook", daemon=True).start()

    def _exchange(self, channel: socket.socket) -> None:
        try:
            with channel:
                channel.settimeout(TIMEOUT_SECONDS)
                if _uid_of(channel) == os.getuid():
                    self._respond(channel)
        except OSError:
            return  # the client is gone: its event is recorded, or it writes the event directly
        finally:
            self._slots.release()

    def _respond(self, channel: socket.socket) -> None:
        try:
            event = json.loads(_read(channel))
            answer = self._answer(event) if isinstance(event, dict) else None
        except Exception as error:  # must not break the supervisor; the client gets the error and writes directly
            channel.sendall(f"-{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
            return
        if isinstance(answer, Held):
            # Spaces keep the client from giving up on a supervisor that lives. They come before the plus sign: if we
            # are killed meanwhile, the client has no reply, and not an empty one, which would let the call run.
            for _ in range(MAX_SPACES):
                if answer.until.wait(SPACE_SECONDS):
                    break
                channel.sendall(b" ")
            answer = answer.reply
        channel.sendall(b"+" + (json.dumps(dict(answer)).encode() if answer is not None else b""))


class SocketHooks:
    """Hooks over a Unix socket."""

    command = (sys.executable, "-I", "-S", client.__file__)

    def listen(self, directory: Path, answer: Answer) -> SocketListener:
        return SocketListener(directory, answer)


def _read(channel: socket.socket) -> bytes:
    blocks, size = [], 0
    while block := channel.recv(client.BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        if size > PAYLOAD_BYTES:
            raise ValueError(f"hook event larger than {PAYLOAD_BYTES} bytes")
    return b"".join(blocks)


def peer_option(platform: Platform) -> tuple[int, int, str]:
    """Level, option and structure of the peer credentials of a socket; the user id comes second."""
    if platform.is_linux:
        return socket.SOL_SOCKET, _SO_PEERCRED, "3i"
    return 0, _LOCAL_PEERCRED, "2I"  # macOS and the BSDs: the beginning of a struct xucred


def _uid_of(channel: socket.socket) -> int:
    """The user id of the process at the other end."""
    level, option, structure = peer_option(this_platform())
    uid: int = struct.unpack_from(structure, channel.getsockopt(level, option, _CREDENTIALS_BYTES))[1]
    return uid
