"""`relight doctor --service`: what it prints is a unit that systemd takes, or an agent that launchd does."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relight.cli.maintenance.doctor.service import service_file
from relight.errors import UsageError
from relight.system.platform import Platform

ODD = '/home/a b/100%/"quoted"/r.db'
SECRET = "postgresql://me:hunter2@db/relight"
LINUX, DARWIN = Platform("linux"), Platform("darwin")


def printed(store: str, platform: Platform) -> str:
    return "\n".join(service_file(store, platform, {"PATH": "/opt/bin:/bin"}, "/Users/me")) + "\n"


@pytest.mark.parametrize("store", [ODD, SECRET, "/var/lib/r.db"])
def test_systemd_takes_the_unit(tmp_path: Path, store: str) -> None:
    text = printed(store, LINUX)
    assert "hunter2" not in text
    assert f"{sys.executable} -P -m relight.cli resume --all --yes" in text
    if shutil.which("systemd-analyze") is None:
        return
    unit = tmp_path / "relight.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "relight.service" not in done.stderr, done.stderr


def test_a_store_with_spaces_and_percents_is_one_variable_of_the_unit() -> None:
    assert 'Environment="RELIGHT_STORE=/home/a b/100%%/\\"quoted\\"/r.db"' in printed(ODD, LINUX).splitlines()
    assert "EnvironmentFile=%h/.config/relight.env" in printed(SECRET, LINUX).splitlines()


@pytest.mark.parametrize("store", [ODD, SECRET])
def test_the_unit_finds_the_agents_that_its_user_finds(store: str) -> None:
    assert "Environment=PATH=/opt/bin:/bin" in printed(store, LINUX).splitlines()


def test_launchd_takes_the_agent_and_leaves_supervisors_running() -> None:
    found = plistlib.loads(printed(ODD, DARWIN).encode())
    assert found["ProgramArguments"] == [sys.executable, "-P", "-m", "relight.cli", "resume", "--all", "--yes"]
    assert found["EnvironmentVariables"] == {"PATH": "/opt/bin:/bin", "RELIGHT_STORE": ODD}
    assert (found["RunAtLoad"], found["AbandonProcessGroup"]) == (True, True)
    assert found["StandardErrorPath"] == "/Users/me/Library/Logs/relight.log"


def test_a_password_stays_out_of_the_agent_and_is_read_from_a_file(tmp_path: Path) -> None:
    text = printed(SECRET, DARWIN)
    assert "hunter2" not in text
    command = plistlib.loads(text.encode())["ProgramArguments"]
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "relight.env").write_text(f"RELIGHT_STORE={SECRET}\n")
    prints = [*command[:3], sys.executable, "-I", "-S", "-c", "import os; print(os.environ['RELIGHT_STORE'])"]
    done = subprocess.run(prints, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.stdout == f"{SECRET}\n", done.stderr


def test_another_platform_is_told_what_to_run() -> None:
    with pytest.raises(UsageError, match="no service is known for freebsd14") as told:
        printed(ODD, Platform("freebsd14"))
    assert "relight resume --all --yes" in told.value.hints[0]
