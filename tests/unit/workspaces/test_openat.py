"""Which call renames, by platform: macOS's C library is handed in, the others' fallbacks really run."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from relight.workspaces.restore import openat

RENAME_SWAP, RENAME_EXCL = 2, 4


class DarwinLibrary:
    """The C library of macOS: renameatx_np, and no syscall for openat2. `error` is what it answers with."""

    def __init__(self, error: int = 0) -> None:
        self.error = error
        self.calls: list[tuple[bytes, bytes, int]] = []

    def renameatx_np(
        self, source_fd: int, source: ctypes.c_char_p, name_fd: int, name: ctypes.c_char_p, flags: int
    ) -> int:
        assert source_fd == name_fd and source.value is not None and name.value is not None
        self.calls.append((source.value, name.value, flags))
        ctypes.set_errno(self.error)
        return -1 if self.error else 0


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode())
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def on(monkeypatch: pytest.MonkeyPatch, libc: object, system: str) -> None:
    monkeypatch.setattr(openat, "calls", openat.Calls(libc, system))


def test_linux_resolves_below_a_root_by_itself() -> None:
    assert openat.has_openat2()


def test_macos_renames_with_its_own_flags(directory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    darwin = DarwinLibrary()
    on(monkeypatch, darwin, "Darwin")
    assert openat.rename_exchange(directory, b"one", b"two")
    openat.rename_noreplace(directory, b"one", b"three")
    assert darwin.calls == [(b"one", b"two", RENAME_SWAP), (b"one", b"three", RENAME_EXCL)]
    assert not openat.has_openat2()


@pytest.mark.parametrize("error", [errno.ENOTSUP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_these_flags_is_no_error(
    directory: int, error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, DarwinLibrary(error), "Darwin")
    assert not openat.rename_exchange(directory, b"one", b"two")
    openat.rename_noreplace(directory, b"one", b"three")
    assert sorted(os.listdir(tmp_path)) == ["three", "two"]


@pytest.mark.parametrize("call", [openat.rename_exchange, openat.rename_noreplace])
def test_any_other_error_is_raised(directory: int, call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, DarwinLibrary(errno.EIO), "Darwin")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        call(directory, b"one", b"two")  # type: ignore[operator]


@pytest.mark.parametrize("has_links", [True, False], ids=["links", "no-links"])
@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_without_flags_a_name_that_is_taken_is_never_replaced(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool, kind: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links, as on vfat")

    on(monkeypatch, None, "FreeBSD")
    if not has_links:
        monkeypatch.setattr(os, "link", refused)
    source = tmp_path / "source"
    if kind == "link":
        source.symlink_to("nowhere")
    elif kind == "directory":
        source.mkdir()
    else:
        source.write_bytes(b"new")
    with pytest.raises(FileExistsError):
        openat.rename_noreplace(directory, b"source", b"two")
    openat.rename_noreplace(directory, b"source", b"free")
    assert sorted(os.listdir(tmp_path)) == ["free", "one", "two"]
    assert (tmp_path / "two").read_bytes() == b"two"
