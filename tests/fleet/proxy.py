"""A loopback proxy before a server, which a test can make as silent as a broken network."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class Network:
    """Listens on a port of its own; what it hears is passed on, unless it is cut: then nothing arrives on either side,
    and nobody is told."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._whole = threading.Event()
        self._whole.set()
        self._ended = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """From now on nothing gets through."""
        self._whole.clear()

    def heal(self) -> None:
        """Later packets get through again; what was under way meanwhile is delivered late."""
        self._whole.set()

    def close(self) -> None:
        self._ended = True
        self._whole.set()
        self._thread.join(5)
        self._listener.close()
        for pair in self._pairs:
            for one in pair:
                one.close()

    def _serve(self) -> None:
        while not self._ended:
            if not self._whole.wait(0.1):
                continue
            other = {a: b for pair in self._pairs for a, b in (pair, pair[::-1])}
            ready, _, _ = select.select([self._listener, *other], [], [], 0.05)
            for one in ready:
                if not self._whole.is_set():
                    break
                self._pass_on(one, other) if one in other else self._accept()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            self._pairs.append((client, socket.create_connection(("127.0.0.1", self._server), timeout=5)))
        except OSError:
            client.close()

    def _pass_on(self, one: socket.socket, other: dict[socket.socket, socket.socket]) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = one.recv(65536)
        with contextlib.suppress(OSError):
            if data:
                other[one].sendall(data)
                return
        for pair in [pair for pair in self._pairs if one in pair]:
            self._pairs.remove(pair)
            for end in pair:
                end.close()
