"""`relight migrate` and `relight doctor`: looking changes nothing, updating is safe by many at once, and both tell."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import apsw
import pytest

import relight
from relight.stores.postgres import migrate as postgres
from relight.stores.postgres.connections import Connections
from relight.stores.postgres.statements import SQL
from relight.stores.sqlite import migrate as sqlite
from relight.system.machine import SystemClock
from tests.integration.acceptance.conftest import Servers
from tests.integration.acceptance.server_failures import typed
from tests.support.postgres_server import name_of
from tests.support.shell import command, environment

PROCESSES = 4
KINDS = ["sqlite", "postgres"]


def old_store(kind: str, servers: Servers, directory: Path) -> str:
    """A store as the relight before this one made it: without the last migration."""
    if kind == "sqlite":
        path = directory / "relight.db"
        with sqlite3.connect(path):
            pass
        connection = apsw.Connection(str(path))
        connection.create_scalar_function("label_seal", lambda *row: b"", 3, deterministic=True)
        sqlite.migrate(connection, sqlite.VERSION - 1)
        connection.close()
        return f"sqlite:///{path}"
    url = servers.postgres.database()
    connections = Connections(url)
    for number, file in enumerate(postgres.MIGRATIONS[:-1], 1):
        with connections.transaction() as cursor:
            cursor.execute(SQL["migration_lock"])
            postgres.run(cursor, number, file, url)
    connections.close()
    return url


def version(kind: str, servers: Servers, url: str) -> Any:
    """What the store says of itself, read behind its back."""
    if kind == "sqlite":
        return sqlite3.connect(url.removeprefix("sqlite:///")).execute("PRAGMA user_version").fetchone()[0]
    return servers.postgres.execute("SELECT version FROM relight.store", database=name_of(url))[0][0]


def existing(url: str, *flags: str) -> Any:
    done = typed(url, "migrate", "--json", *flags)
    assert done.code == 0, done
    return json.loads(done.out)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_looking_says_what_is_old_and_changes_nothing(kind: str, servers: Servers, tmp_path: Path) -> None:
    url = old_store(kind, servers, tmp_path)
    wanted = {"sqlite": sqlite.VERSION, "postgres": postgres.VERSION}[kind]
    for _ in range(2):
        reported = existing(url, "--dry-run")
        assert (reported["found"], reported["wanted"], reported["done"]) == (wanted - 1, wanted, False)
        doctor = typed(url, "doctor")
        assert f"version {wanted - 1}, this relight needs {wanted}" in doctor.out
        assert "relight migrate" in doctor.out
        assert version(kind, servers, url) == wanted - 1
    reported = existing(url)
    assert (reported["found"], reported["now"], reported["done"]) == (wanted - 1, wanted, True)
    assert version(kind, servers, url) == wanted
    assert existing(url)["done"] is False
    assert f"version {wanted}, up to date" in typed(url, "doctor").out


@pytest.mark.parametrize("kind", KINDS)
def test_many_that_migrate_at_once_make_one_store(kind: str, servers: Servers, tmp_path: Path) -> None:
    url = old_store(kind, servers, tmp_path)
    started = [
        subprocess.Popen(command("migrate", "--json"), env=environment(url), stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    said = [one.communicate(timeout=60)[0] for one in started]
    assert [one.returncode for one in started] == [0] * PROCESSES
    reported = [json.loads(one) for one in said]
    assert [[part["now"] for part in one] for one in reported] == [[part["wanted"] for part in reported[0]]] * PROCESSES
    with relight.open(url) as rl, rl.session("new") as s:
        s.append({"role": "user", "content": "hello"})
        assert rl.history.verify().ok


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_a_store_that_is_not_there_is_made_by_migrate_and_by_nobody_who_looks(
    kind: str, servers: Servers, tmp_path: Path
) -> None:
    url = servers.postgres.database() if kind == "postgres" else servers.address(kind, tmp_path)
    first = typed(url, "migrate", "--dry-run", "--json")
    doctor = typed(url, "doctor")
    assert (first.code, doctor.code) == (0, 0), (first, doctor)
    if kind != "redis":  # where a key comes with what is in it
        assert json.loads(first.out)[0]["found"] is None
        assert "does not exist yet" in doctor.out
        assert existing(url)["done"] is True
        assert "does not exist yet" not in typed(url, "doctor").out
    assert existing(url)["done"] is False


def test_memory_has_nothing_to_migrate() -> None:
    done = typed("memory:", "migrate")
    assert (done.code, done.out) == (0, "")
    assert "nothing to migrate" in done.err


# -- the doctor ------------------------------------------------------------------------------------------------


def findings(url: str) -> dict[str, Any]:
    return {one["what"]: one for one in json.loads(typed(url, "doctor", "--json").out)}


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_the_doctor_compares_the_clocks(
    kind: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = servers.address(kind, tmp_path)
    skew = findings(url)["skew"]
    assert skew["fine"], skew

    class Late(SystemClock):
        def now_us(self) -> int:
            return super().now_us() - 90_000_000

    monkeypatch.setattr("relight.cli.maintenance.doctor.doctor.SystemClock", Late)
    skew = findings(url)["skew"]
    assert not skew["fine"]
    assert "90.0 s behind the server's" in skew["text"]
    assert "timedatectl" in skew["cure"]


def test_a_file_has_no_clock_of_its_own(servers: Servers, tmp_path: Path) -> None:
    assert "skew" not in findings(servers.address("sqlite", tmp_path))


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_the_doctor_names_a_queue_that_nobody_serves(kind: str, servers: Servers, tmp_path: Path) -> None:
    url = servers.address(kind, tmp_path)
    assert "engine" not in findings(url)
    with relight.open(url) as rl:
        rl.queues.submit(["true"], directory=str(tmp_path), name="waits", queue="nightly")
    engine = findings(url)["engine"]
    assert not engine["fine"]
    assert "relight worker" in engine["cure"]
    assert kind == "postgres" or "no worker serves nightly" in engine["text"]


# -- durability ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keeps"),
    [("memory", "none"), ("sqlite", "power-loss"), ("postgres", "process-crash"), ("redis", "power-loss")],
)
def test_a_store_that_keeps_less_than_is_demanded_is_refused(
    kind: str, keeps: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This PostgreSQL runs with fsync off, and this Redis syncs every write."""
    levels = ("none", "process-crash", "power-loss")
    url = servers.address(kind, tmp_path)
    for demanded in levels:
        enough = levels.index(keeps) >= levels.index(demanded)
        if enough:
            relight.open(url, durability=demanded).close()
        else:
            with pytest.raises(relight.errors.StoreUnavailable, match=f"has {keeps}") as refused:
                relight.open(url, durability=demanded)
            assert refused.value.hints
        monkeypatch.setenv("RELIGHT_DURABILITY", demanded)
        done = typed(url, "list")
        assert done.code == (0 if enough else 5), done
        assert enough or "hint: " in done.err
        monkeypatch.delenv("RELIGHT_DURABILITY")
    with pytest.raises(relight.errors.UsageError, match="no durability called 'for-ever'"):
        relight.open(url, durability="for-ever")


def test_a_redis_that_is_set_to_keep_less_is_refused_and_cured(servers: Servers, tmp_path: Path) -> None:
    url = servers.address("redis", tmp_path)
    with servers.redis.client() as client:
        client.config_set("appendfsync", "everysec")
        try:
            with pytest.raises(relight.errors.StoreUnavailable, match="appendfsync is everysec") as refused:
                relight.open(url, durability="power-loss")
            found = findings(url)["durable"]
            assert (found["fine"], found["text"].partition(":")[0]) == (False, "process-crash")
            for hint in refused.value.hints:
                client.execute_command(*hint.removeprefix("redis-cli ").split())
            relight.open(url, durability="power-loss").close()
            assert findings(url)["durable"]["fine"]
        finally:
            client.config_set("appendfsync", "always")


def test_what_is_not_there_yet_is_not_refused_to_who_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_DURABILITY", "power-loss")
    assert typed(f"sqlite:///{tmp_path / 'none.db'}", "doctor").code == 0
    assert not (tmp_path / "none.db").exists()
