"""A hook whose call waits for a person: it is left without a reply as long as its supervisor lives, and no longer."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from relight.hooks import channel, client
from relight.ports.hooks import Held

DENIED = {"said": "no"}


def test_a_held_hook_gets_signs_of_life_and_its_reply_only_when_its_agent_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert channel.SPACE_SECONDS * 3 < client.TIMEOUT_SECONDS
    monkeypatch.setattr(channel, "SPACE_SECONDS", 0.05)
    over = threading.Event()
    listener = channel.SocketHooks().listen(tmp_path, lambda _: Held(over, DENIED))
    try:
        with socket.socket(socket.AF_UNIX) as hook:
            hook.settimeout(30.0)
            client.at_address(listener.environment["RELIGHT_HOOK_SOCKET"], hook.connect)
            hook.sendall(b"{}")
            hook.shutdown(socket.SHUT_WR)
            got = b""
            while len(got) < 4:
                got += hook.recv(1)
            assert got == b"    ", "a reply before the agent has ended"
            over.set()
            assert b"".join(iter(lambda: hook.recv(100), b"")).strip() == b'+{"said": "no"}'
    finally:
        listener.close()


@pytest.mark.parametrize("sent", [b"", b"  "])
def test_a_held_hook_whose_supervisor_dies_has_no_reply_instead_of_an_empty_one_that_lets_the_call_run(
    sent: bytes,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(OSError, match="no answer"):
            client.answer_of(ours)
