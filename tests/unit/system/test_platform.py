"""Where relight runs: what it needs is imported late, and a platform that lacks it is told in plain words."""

from __future__ import annotations

import subprocess
import sys

import pytest

import relight
from relight.cli.main import refused_on
from relight.errors import UsageError
from relight.system import platform
from relight.system.platform import Platform

WITHOUT = """
import os, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "resource", "termios", "tty", "pty", "grp", "pwd"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in ("fcntl", "resource", "termios", "tty", "pty", "grp", "pwd"):
    sys.modules.pop(name, None)
for name in ("posix_fallocate", "register_at_fork", "fork", "geteuid", "getuid", "uname"):
    vars(os).pop(name, None)
import relight
from relight import Retention, Usage, errors
from relight.cli.main import main
sys.exit(main(["--version"]))
"""


def test_the_package_and_its_version_need_nothing_that_only_posix_has() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (f"relight {relight.__version__}\n", "", 0)


def test_the_first_command_on_windows_names_wsl(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused_on(Platform("win32")) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: relight does not run on Windows itself, but does in WSL")
    assert "hint: in PowerShell: wsl --install" in told
    assert [refused_on(Platform(name)) for name in ("linux", "darwin", "freebsd14")] == [0, 0, 0]


@pytest.mark.parametrize("name", ["open", "session", "tool", "Session", "aio"])
def test_what_needs_posix_names_wsl_when_it_is_imported_on_windows(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(platform, "this_platform", lambda: Platform("win32"))
    monkeypatch.delitem(vars(relight), name, raising=False)
    with pytest.raises(UsageError, match="WSL"):
        getattr(relight, name)
    assert relight.Retention(finished_days=1).finished_days == 1, "values need nothing"
