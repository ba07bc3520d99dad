"""The verbs of the command line on a machine that has never seen the files: verify, diff, restore, export, fork, rm."""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.blobs.postgres import PostgresBlobs
from relight.cli.main import main
from relight.errors import MissingExtra, StoreUnavailable, UsageError
from relight.ports.blobs import Blobs, list_all
from relight.stores.postgres.store import PostgresStore
from relight.system.machine import SystemClock
from relight.testing.workspace_kit import picture
from tests.support.figures import Figure
from tests.support.machines import noise
from tests.support.object_storage import ObjectStorage
from tests.support.postgres_server import Server
from tests.support.programs.file_op import change, grow


def command(*words: str) -> tuple[int, str]:
    """The command line in this process: its exit code, and what it wrote."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(words)
    said.flush()
    return code, said.buffer.getvalue().decode()


class Place:
    """A store, a blob store, and machines that know both."""

    def __init__(self, path: Path, store: str, blobs: str, patch: pytest.MonkeyPatch) -> None:
        self.path, self.store = path, store
        self._patch = patch
        patch.setenv("RELIGHT_STORE", store)
        patch.setenv("RELIGHT_BLOBS", blobs)
        patch.setenv("RELIGHT_HINTS", "0")

    def at(self, machine: str) -> Path:
        """From here on this process is on that machine; a directory to work in."""
        home = self.path / machine
        self._patch.setenv("XDG_DATA_HOME", str(home / "data"))
        (home / "tree").mkdir(parents=True, exist_ok=True)
        return home / "tree"

    def do(self, *words: str) -> str:
        code, said = command(*words)
        assert code == 0, said
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self.do(*words, "--json"))


@pytest.fixture(params=["postgresql", "s3", "file"])
def location(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Place, Callable[[], list[str]]]]:
    """On PostgreSQL, with content in the same database, in object storage, in a shared directory."""
    server: Server = request.getfixturevalue("postgres")
    store = server.emptied()
    lent = PostgresStore(store, SystemClock())
    blobs: Blobs
    if request.param == "s3":
        s3: ObjectStorage = request.getfixturevalue("s3")
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        address = s3.bucket()
        blobs = s3.blobs(address)
    elif request.param == "file":
        from relight.blobs.directory import DirectoryBlobs

        address = f"file://{tmp_path}/shared"
        blobs = DirectoryBlobs(tmp_path / "shared")
    else:
        address, blobs = "postgresql:", PostgresBlobs(lent.connections)
    yield Place(tmp_path, store, address, monkeypatch), lambda: [blob.key for blob in list_all(blobs)]
    lent.close()


def test_a_session_is_looked_at_restored_forked_and_removed_on_another_machine(
    location: tuple[Place, Callable[[], list[str]]], figure: Figure
) -> None:
    fleet, keys = location
    here = fleet.at("here")
    with relight.open() as rl, rl.session("agent", workspace=here) as s:
        grow(here)
        (here / "large").write_bytes(noise(4_400_000))
        with s.batch("then"):
            s.append({"role": "assistant", "content": "then"})
        then = picture(here)
        change(here)
        with s.batch("now"):
            s.append({"role": "assistant", "content": "now"})
        now = picture(here)
    assert keys()
    moved = here.with_name("moved")
    here.rename(moved)  # on the other machine the directory is not there

    fleet.at("there")
    fleet.do("verify", "agent")
    changed = fleet.json("diff", "agent@then", "agent@now")
    assert {one["path"] for one in changed} >= {"a/edit", "a/new"}
    fork = fleet.path / "there" / "forked"
    fleet.do("fork", "agent@then", "--name", "branch", "--workspace", str(fork))
    assert picture(fork) == then
    fleet.do("fork", "agent@now", "--name", "other", "--workspace", str(fork) + "2")
    assert picture(Path(str(fork) + "2")) == now
    here.mkdir()
    fleet.do("restore", "agent@then", "--force")
    assert picture(here) == then
    bundle = fleet.path / "bundle.relight"
    fleet.do("export", "agent", str(bundle))
    assert bundle.stat().st_size > 4_300_000
    assert fleet.do("doctor").count("answers; captured files can be restored on any machine") == 1
    before = keys()
    said = fleet.do("rm", "agent", "--with-forks", "--yes")
    running = [thread.name for thread in threading.enumerate()]
    assert keys() == [], f"bytes of a removed session are left, of {before}; {said}; threads: {running}"
    fleet.at("here")
    with relight.open() as rl:
        assert list(rl.sessions.list()) == []
        assert rl.files.size_bytes() == 0
    figure("G18", "rm on another machine leaves no blob")


@pytest.mark.parametrize("location", ["postgresql", "s3"], indirect=True)
def test_a_sweep_on_another_machine_ends_what_nobody_names(location: tuple[Place, Callable[[], list[str]]]) -> None:
    fleet, keys = location
    here = fleet.at("here")
    with relight.open() as rl, rl.session("agent", workspace=here) as s:
        (here / "a").write_bytes(b"kept")
        with s.batch("one"):
            s.append({"role": "assistant", "content": "one"})
        kept = set(keys())
        for _ in range(3):
            (here / "a").write_bytes(noise(50_000))
            s.snapshot()  # named by no step: a writer that died
        (here / "a").write_bytes(b"kept")
    assert len(keys()) > len(kept)
    fleet.at("there")
    with relight.open() as rl:
        from relight.values.policy import Retention

        freed = rl.admin.sweep(Retention(grace_seconds=0.0)).file_bytes
        assert freed > 150_000
        assert rl.admin.sweep(Retention(grace_seconds=0.0), dry_run=True).file_bytes == 0
    fleet.do("verify", "agent")


def test_two_stores_in_one_bucket_do_not_touch_each_other(
    s3: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They capture the same path, and so have pools of the same key."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RELIGHT_HINTS", "0")
    monkeypatch.setenv("RELIGHT_BLOBS", s3.bucket())
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("one", "two"):
        (root / "a").write_bytes(name.encode())
        with relight.open(tmp_path / f"{name}.db") as rl, rl.session("agent", workspace=root) as s, s.batch("it"):
            s.append({"role": "assistant", "content": name})
    with relight.open(tmp_path / "one.db") as rl:
        rl.sessions.remove("agent")
        rl.admin.sweep()
    with relight.open(tmp_path / "two.db") as rl:
        assert rl.history.verify("agent").problems == []


def test_object_storage_that_is_down_refuses_the_snapshot_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.object_storage import running

    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_bytes(b"one")
    monkeypatch.setenv("RELIGHT_HINTS", "0")
    monkeypatch.setattr("relight.blobs.s3.RETRIES", 1)
    with running() as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RELIGHT_BLOBS", s3.bucket())
        with relight.open(tmp_path / "r.db") as rl, rl.session("agent", workspace=root, snapshot="manual") as s:
            s.snapshot()
            s.append({"role": "user", "content": "kept"})
            s3.stop()
            (root / "a").write_bytes(b"two")
            with pytest.raises(StoreUnavailable, match="object storage could not be used") as reported:
                s.snapshot()
            assert "RELIGHT_S3_ENDPOINT" in reported.value.hints[0]
            assert reported.value.exit_code == 5 and reported.value.evidence
            s.append({"role": "user", "content": "the conversation goes on"})
    with relight.open(tmp_path / "r.db") as rl:
        assert [one["content"] for one in rl.history.load("agent").messages] == ["kept", "the conversation goes on"]


def test_the_doctor_says_what_to_do_where_object_storage_does_not_answer(
    s3: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "r.db"))
    monkeypatch.setenv("RELIGHT_HINTS", "0")
    monkeypatch.setattr("relight.blobs.s3.RETRIES", 0)
    (tmp_path / "tree").mkdir()
    monkeypatch.setenv("RELIGHT_BLOBS", s3.bucket())
    with relight.open() as rl, rl.session("agent", workspace=tmp_path / "tree") as s, s.batch("one"):
        s.append({"role": "assistant", "content": "one"})

    def found() -> dict[str, dict[str, Any]]:
        _, said = command("doctor", "--json")
        return {one["what"]: one for one in json.loads(said)}

    fine = found()
    assert fine["blobs"]["fine"] and "s3://" in fine["files"]["text"]
    address = os.environ["RELIGHT_BLOBS"]
    monkeypatch.setenv("RELIGHT_BLOBS", f"{address}/misspelt")
    assert f"export RELIGHT_BLOBS={address}" in found()["blobs"]["cure"]
    monkeypatch.setenv("RELIGHT_BLOBS", "s3://no-such-bucket/prefix")
    assert "create the bucket" in found()["blobs"]["cure"]
    monkeypatch.setenv("RELIGHT_S3_ENDPOINT", "http://127.0.0.1:9")
    down = found()
    assert not down["blobs"]["fine"] and "RELIGHT_S3_ENDPOINT" in down["blobs"]["cure"]
    assert down["store"]["fine"] and down["journal"]["fine"] and not down["files"]["fine"]


@pytest.mark.parametrize(
    "named", ["ftp://host/x", "s3://", "s3:", "file://relative", "postgresql://elsewhere/db", "postgresql:", "gs://b"]
)
def test_an_address_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("RELIGHT_BLOBS", named)
    monkeypatch.setenv("RELIGHT_HINTS", "0")
    (tmp_path / "tree").mkdir()
    with relight.open(tmp_path / "r.db") as rl, pytest.raises(UsageError) as reported:
        rl.session("agent", workspace=tmp_path / "tree")
    assert not isinstance(reported.value, MissingExtra)
    assert os.listdir(tmp_path / "tree") == []


@pytest.mark.parametrize("location", ["postgresql", "file"], indirect=True)
def test_a_machine_that_was_not_told_where_files_lie_is_told(
    location: tuple[Place, Callable[[], list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instead of finding no files, or putting new ones where no other machine sees them."""
    fleet, keys = location
    here = fleet.at("here")
    (here / "a").write_bytes(b"one")
    with relight.open() as rl, rl.session("agent", workspace=here) as s, s.batch("one"):
        s.append({"role": "assistant", "content": "one"})
    address, before = os.environ["RELIGHT_BLOBS"], keys()
    fleet.at("there")
    monkeypatch.delenv("RELIGHT_BLOBS")
    verbs = (
        "restore agent@one",
        "diff agent@one",
        "rm agent --yes",
        "sweep",
        f"fork agent@one --workspace {fleet.path}/new",
    )
    for verb in verbs:
        code, said = command(*verb.split())
        assert code == 2 and f"export RELIGHT_BLOBS={address}" in said, said
    assert keys() == before
    assert command("show", "agent")[0] == 0, "what needs no files is not refused"
    _, said = command("doctor", "--json")
    assert f"export RELIGHT_BLOBS={address}" in {one["cure"] for one in json.loads(said)}
    monkeypatch.setenv("RELIGHT_BLOBS", address)
    assert command("rm", "agent", "--yes")[0] == 0
    assert keys() == []
