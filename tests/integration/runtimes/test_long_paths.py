"""Sockets where the home and TMPDIR have longer paths than a socket address can hold, and where others may write."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relight.errors import StoreUnavailable
from relight.hooks import client
from relight.hooks.channel import SocketHooks, peer_option
from relight.runtimes.tmux.runtime import TmuxRuntime
from relight.system import private_directories
from relight.system.platform import Platform
from relight.testing.runtime_kit import until


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a path of more than 300 bytes, which is also TMPDIR."""
    path = tmp_path / ("home of somebody with a long name" * 5) / ("and" * 40)
    path.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(path))
    return path


@pytest.mark.parametrize("is_long", [True, False], ids=["long", "short"])
def test_a_hook_reaches_its_supervisor_however_long_the_path(tmp_path: Path, long: Path, is_long: bool) -> None:
    heard: list[Any] = []

    def answer(event: Any) -> dict[str, str]:
        heard.append(event)
        return {"said": "yes"}

    listening = SocketHooks().listen(long if is_long else tmp_path, answer)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", client.__file__],
            input=b'{"event": 1}',
            env={**os.environ, **listening.environment},
            capture_output=True,
            check=False,
        )
    finally:
        listening.close()
    assert (json.loads(done.stdout), heard) == ({"said": "yes"}, [{"event": 1}])
    left = [link for link in Path("/tmp").glob("relight-*/d") if os.path.realpath(link) == str(long.resolve())]
    assert not left, "nothing is left of the way there"


def test_an_address_is_never_longer_than_macos_allows(long: Path) -> None:
    used: list[str] = []
    client.at_address(str(long / "hook"), used.append)
    assert len(os.fsencode(used[0])) <= 103
    assert len(os.fsencode(private_directories.short_socket(long / "tmux.sock"))) <= 103


def test_a_failure_at_the_address_leaves_nothing_behind(long: Path) -> None:
    used: list[str] = []

    def fail(address: str) -> None:
        used.append(address)
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        client.at_address(str(long / "hook"), fail)
    assert not os.path.lexists(Path(used[0]).parent.parent)


def test_the_user_at_the_other_end_is_asked_for_as_each_platform_wants_it() -> None:
    assert peer_option(Platform("linux")) == (socket.SOL_SOCKET, 17, "3i")
    assert peer_option(Platform("darwin")) == (0, 1, "2I")  # SOL_LOCAL, LOCAL_PEERCRED, a version and the user id


def test_tmux_works_below_a_long_home(long: Path, program: Any) -> None:
    program("tmux")
    runtime = TmuxRuntime(long / "tmux")
    child = runtime.spawn(["sleep", "60"], directory=str(long), environment={"RELIGHT_SESSION": "a"}, handle="agent")
    try:
        assert TmuxRuntime(long / "tmux").probe("agent").pid == child.pid, "another process finds it"
        socket_path = Path(runtime.attach_command("agent")[2])
        assert socket_path.is_socket() and socket_path.parent.stat().st_mode & 0o777 == 0o700
    finally:
        runtime.destroy("agent")
    until(lambda: child.poll() is not None, "it has ended")
    socket_path.unlink(missing_ok=True)
    socket_path.parent.rmdir()


@pytest.mark.parametrize("planted", ["link", "open", "file"])
def test_a_short_directory_that_somebody_else_prepared_is_refused(tmp_path: Path, planted: str) -> None:
    theirs = tmp_path / "relight-0" / "name"
    theirs.parent.mkdir(mode=0o700)
    private_directories.make_in_shared(theirs)
    theirs.rmdir()
    if planted == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        theirs.symlink_to(tmp_path / "elsewhere")
    elif planted == "open":
        theirs.mkdir()
        theirs.chmod(0o777)
    else:
        theirs.touch(mode=0o700)
    with pytest.raises(StoreUnavailable, match="nothing in it is trusted"):
        private_directories.make_in_shared(theirs)
