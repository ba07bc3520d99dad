"""What goes wrong there: objects that are emptied, storage that is down or damaged, an address that is another one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import relight
from relight.blobs.directory import DirectoryBlobs
from relight.blobs.s3 import S3Blobs
from relight.errors import Corrupt, StoreUnavailable, UsageError
from relight.library.facade import Relight
from relight.ports.blobs import list_all
from relight.values.policy import Retention
from tests.support.machines import Fleet, noise
from tests.support.object_storage import KEYS, ObjectStorage

NOW = Retention(grace_seconds=0.0)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_an_emptied_object_stops_no_writer(fleet: Fleet) -> None:
    here = fleet.machine("here")
    here.write("a", noise(4000))
    with here.open() as workspace:
        workspace.snapshot()
        before = set(fleet.files())
        here.write("a", noise(4000))
        lost = workspace.snapshot().id
    [hit] = set(fleet.files()) - before
    hit.write_bytes(b"")
    here.write("a", b"goes on")
    with here.open() as workspace:
        assert workspace.read(workspace.snapshot().id, b"a") == b"goes on"
        with pytest.raises(Corrupt):
            workspace.read(lost, b"a")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Content lies in a directory that all machines see, and this one has a warm cache of it."""
    monkeypatch.setenv("RELIGHT_BLOBS", f"file://{tmp_path}/shared")
    monkeypatch.setenv("RELIGHT_HINTS", "0")
    yield tmp_path


def captured(rl: Relight, name: str, root: Path) -> None:
    root.mkdir(exist_ok=True)
    with rl.session(name, workspace=root) as session:
        for label in ("one", "two"):
            (root / "a").write_bytes(noise(4000))
            with session.batch(label):
                session.append({"role": "assistant", "content": label})


def objects(path: Path) -> list[Path]:
    return sorted(one for one in (path / "shared").rglob("*") if one.is_file())


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)


@pytest.mark.guarantee("G5")
def test_damage_there_is_named_although_the_cache_here_is_whole(shared: Path) -> None:
    with relight.open(shared / "r.db") as rl:
        captured(rl, "agent", shared / "tree")
        assert rl.history.verify("agent").ok
        flipped(objects(shared)[-1])
        found = rl.history.verify("agent").problems
        assert ["damaged" in one.what for one in found] == [True]


@contextlib.contextmanager
def down(path: Path) -> Iterator[None]:
    """Something else is mounted where the directory was."""
    (path / "shared").rename(path / "aside")
    (path / "shared").touch()
    yield
    (path / "shared").unlink()
    (path / "aside").rename(path / "shared")


def test_storage_that_is_down_is_not_taken_for_damage(shared: Path) -> None:
    with relight.open(shared / "r.db") as rl:
        captured(rl, "agent", shared / "tree")
        with down(shared), pytest.raises(StoreUnavailable):
            rl.history.verify("agent")
        assert rl.history.verify("agent").ok


def test_who_removes_while_storage_is_down_is_told_what_is_gone_and_what_is_left(shared: Path) -> None:
    with relight.open(shared / "r.db") as rl:
        captured(rl, "agent", shared / "tree")
        with down(shared), pytest.raises(StoreUnavailable) as reported:
            rl.sessions.remove("agent")
        assert "still there" in reported.value.evidence[-1] and "relight sweep" in reported.value.hints[-1]
        assert list(rl.sessions.list()) == []
        rl.admin.sweep(NOW)
        assert list(list_all(DirectoryBlobs(shared / "shared"))) == []


@pytest.mark.parametrize("how", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:1000])])
def test_a_lost_object_names_itself_and_stops_no_sweep_of_the_rest(shared: Path, how: Callable[[Path], object]) -> None:
    with relight.open(shared / "r.db") as rl:
        captured(rl, "hurt", shared / "hurt")
        how(objects(shared)[-1])
        before = set(objects(shared))
        captured(rl, "fine", shared / "fine")
        captured(rl, "neighbour", shared / "hurt")
        with pytest.raises(Corrupt, match=r"hurt@3: .* is missing") as reported:
            rl.files.restore("hurt@two")
        assert "relight restore hurt@2" in reported.value.hints[0]
        rl.sessions.remove("fine")
        rl.sessions.remove("neighbour")  # its files lie among those of the one that is hurt
        assert [info.name for info in rl.sessions.list()] == ["hurt"]
        rl.admin.sweep(NOW)
        assert before <= set(objects(shared)), "what is left of it may be all that can be saved"
        rl.sessions.remove("hurt")
        assert objects(shared) == []


def test_another_address_is_refused_until_the_files_are_there_too(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relight.open(shared / "r.db") as rl:
        captured(rl, "agent", shared / "tree")
    monkeypatch.setenv("RELIGHT_BLOBS", f"file://{shared}/elsewhere")
    with relight.open(shared / "r.db") as rl:
        for refused in (lambda: rl.files.restore("agent@one"), lambda: captured(rl, "other", shared / "tree2")):
            with pytest.raises(UsageError, match="shared") as reported:
                refused()
            assert f"RELIGHT_BLOBS=file://{shared}/shared" in reported.value.hints[0]
        with pytest.raises(UsageError):
            rl.sessions.remove("agent")
        assert "agent" in [info.name for info in rl.sessions.list()], "removed, and its files left behind"
    (shared / "shared").rename(shared / "elsewhere")
    with relight.open(shared / "r.db") as rl:
        assert rl.history.verify("agent").ok
        rl.sessions.remove("agent")
    monkeypatch.setenv("RELIGHT_BLOBS", f"file://{shared}/third")
    with relight.open(shared / "r.db") as rl:
        captured(rl, "anew", shared / "tree3")  # nothing is left that could be missed
        assert rl.history.verify("anew").ok


@pytest.mark.parametrize(
    "endpoint",
    [
        "127.0.0.1:80",
        "minio.example",
        "not an endpoint",
        "http://",
        "ftp://127.0.0.1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://[::1",
        "http://user:secret@127.0.0.1:9",
        "http://127.0.0.1:9/\0",
    ],
)
def test_an_endpoint_that_is_none_is_refused_before_anything_is_sent(endpoint: str) -> None:
    with pytest.raises(UsageError, match="endpoint") as reported:
        S3Blobs("s3://bucket/prefix", {**KEYS, "RELIGHT_S3_ENDPOINT": endpoint})
    assert "secret" not in str(reported.value) and "RELIGHT_S3_ENDPOINT" in reported.value.hints[0]


@pytest.mark.parametrize(
    "address", ["s3://buc ket/x", "s3://[x]/y", "s3://b@d/x", "s3://bucket:80/x", "s3://bucket/\0"]
)
def test_a_bucket_that_is_none_is_refused_before_anything_is_sent(address: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        S3Blobs(address, {**KEYS, "RELIGHT_S3_ENDPOINT": "http://127.0.0.1:9"})


def test_a_key_with_the_end_of_a_copied_line_is_taken_and_a_broken_one_is_named(s3: ObjectStorage) -> None:
    copied = {name: f" {value}\n" for name, value in s3.environment.items()}
    assert S3Blobs(s3.bucket(), copied).put("a/b", b"c")
    with pytest.raises(UsageError, match="AWS_SESSION_TOKEN") as reported:
        S3Blobs("s3://bucket/x", {**s3.environment, "AWS_SESSION_TOKEN": "fake\ntoken"})
    assert "fake" not in str(reported.value)
