"""Redis in trouble: each kind is told with a code and a cure, exit 5, and nothing is lost by it."""

from __future__ import annotations

import secrets
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import relight
from relight.errors import StoreUnavailable
from tests.integration.acceptance.server_failures import SECRET, Expected, by_name, opened_in_trouble, survives
from tests.support.postgres_server import free_port, wait_for
from tests.support.redis_server import ALWAYS, RedisServer, redis_program


@pytest.fixture
def server(program: Callable[[str], str], tmp_path: Path) -> Iterator[RedisServer]:
    files = tmp_path / "files"
    files.mkdir()
    started = RedisServer(redis_program(program), {**ALWAYS, "dir": str(files)}, loopback=True)
    yield started
    started.stop()


@contextmanager
def killed(server: RedisServer) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def configured(server: RedisServer, **settings: tuple[str, str]) -> Iterator[None]:
    """Set otherwise, and back."""
    with server.client() as client:
        for name, (value, _) in settings.items():
            client.config_set(name, value)
        try:
            yield
        finally:
            for name, (_, value) in settings.items():
                client.config_set(name, value)


@contextmanager
def replica(server: RedisServer) -> Iterator[None]:
    """Of a primary that is not there."""
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
        try:
            yield
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def mute_replica(server: RedisServer) -> Iterator[None]:
    """One that answers nothing while it has no primary."""
    with configured(server, **{"replica-serve-stale-data": ("no", "yes")}), replica(server):
        yield


@contextmanager
def unable_to_save(server: RedisServer) -> Iterator[None]:
    """Something is in the way of its dump: that fails, and from then on it takes no writes."""
    in_the_way = Path(server._settings["dir"]) / "dump.rdb" / "x"
    in_the_way.mkdir(parents=True)
    with configured(server, save=("3600 1", "")), server.client() as client:
        client.execute_command("BGSAVE")
        wait_for(lambda: _info(client, "persistence")["rdb_last_bgsave_status"] == "err", "the dump fails")
        try:
            yield
        finally:
            in_the_way.rmdir()
            in_the_way.parent.rmdir()
            client.execute_command("BGSAVE")
            wait_for(lambda: _info(client, "persistence")["rdb_last_bgsave_status"] == "ok", "a dump is written")


def _info(client: redis.Redis, section: str) -> dict[str, str]:
    found: dict[str, str] = client.execute_command("INFO", section)
    return found


class Case(NamedTuple):
    """A trouble, and what is told in it."""

    trouble: Callable[[RedisServer], AbstractContextManager[None]]
    expected: Expected


@contextmanager
def newer(server: RedisServer) -> Iterator[None]:
    with server.client() as client:
        client.set("relight:schema", 99)
        try:
            yield
        finally:
            client.set("relight:schema", 1)


CASES = {
    "killed": Case(killed, Expected("RL-5001", "redis-cli ping")),
    "out-of-memory": Case(
        lambda server: configured(server, maxmemory=("1000000", "0")),
        Expected("RL-5005", "maxmemory", reading=True),
    ),
    "replica": Case(replica, Expected("RL-5006", "primary", reading=True)),
    "replica-without-primary": Case(mute_replica, Expected("RL-5001", "primary")),
    "unable-to-save": Case(unable_to_save, Expected("RL-5001", "its log", reading=True)),
    "newer-schema": Case(newer, Expected("RL-5004", "upgrade", open_goes_on=True)),
}


@by_name(CASES)
def test_a_trouble_is_told_and_loses_nothing(server: RedisServer, case: Case) -> None:
    survives(server.url, lambda: case.trouble(server), case.expected)


def test_a_wrong_password_is_told_and_not_shown(server: RedisServer) -> None:
    with configured(server, requirepass=(SECRET[::-1], "")):
        wrong = f"redis://:{SECRET}@127.0.0.1:{server.port}/0"
        opened_in_trouble(wrong, Expected("RL-5001", "put them into the address"))
        opened_in_trouble(f"redis://127.0.0.1:{server.port}/0", Expected("RL-5001", "put them into the address"))


def test_nobody_at_the_address_is_told() -> None:
    nobody = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
    opened_in_trouble(nobody, Expected("RL-5001", "redis-cli ping"))


def test_a_server_that_still_loads_is_told_and_has_all_of_it_afterwards(program: Callable[[str], str]) -> None:
    server = RedisServer(redis_program(program), {"rdbcompression": "no"})
    said = [f"{number}" for number in range(10)]
    try:
        with relight.open(server.url) as rl, rl.session("kept") as s:
            for text in said:
                s.append({"role": "user", "content": text})
        with server.client() as client:
            for number in range(250):  # while it loads it answers after every kilobyte
                client.set(f"other:{number}", secrets.token_bytes(2000))
            client.execute_command("SAVE")
        server.kill()
        slow = {"key-load-delay": "10000", "loading-process-events-interval-bytes": "1024"}
        words = [word for name, value in {**server._settings, **slow}.items() for word in (f"--{name}", value)]
        with (server.directory / "log").open("ab") as log:
            server._process = subprocess.Popen([redis_program(program), *words], stdout=log, stderr=log)
        wait_for(lambda: _said(server) == "LOADING", "it loads")
        opened_in_trouble(server.url, Expected("RL-5001", "in a moment"))
        wait_for(lambda: _said(server) == "PONG", "it has loaded")
        with relight.open(server.url) as rl:
            assert [message["content"] for message in rl.history.load("kept").messages] == said
    finally:
        server.stop()


def _said(server: RedisServer) -> str:
    """To a PING, in one word."""
    path = str(server.directory / "redis.sock")
    with redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0)) as client:
        try:
            return "PONG" if client.ping() else ""
        except redis.BusyLoadingError:
            return "LOADING"
        except redis.RedisError:
            return ""


class Disguise:
    """A wire before a server that says it is of another version."""

    def __init__(self, server: Path, instead: bytes) -> None:
        self._server, self._instead = str(server), instead
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(self._server)
            threading.Thread(target=self._pass, args=(client, upstream, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(upstream, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, disguised: bool) -> None:
        with source, target, suppress(OSError):
            while data := source.recv(1 << 20):
                target.sendall(self._changed(data) if disguised else data)

    def _changed(self, data: bytes) -> bytes:
        """Of the same length, because an answer says how long it is."""
        before, name, after = data.partition(b"redis_version:")
        version = after.partition(b"\r")[0]
        return before + name + self._instead.ljust(len(version), b"0") + after[len(version) :] if name else data

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize(
    ("version", "fits"), [(b"5.0.9", False), (b"6.0.1", False), (b"6.2.0", True), (b"9.9.9", True)]
)
def test_a_server_that_is_too_old_is_told(server: RedisServer, version: bytes, fits: bool) -> None:
    wire = Disguise(server.directory / "redis.sock", version)
    try:
        if fits:
            relight.open(wire.url).close()
            return
        with pytest.raises(StoreUnavailable, match="too old"):
            relight.open(wire.url)
        opened_in_trouble(wire.url, Expected("RL-5001", "6.2"))
    finally:
        wire.close()
