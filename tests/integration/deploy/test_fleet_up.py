"""The composition as plain processes: one script starts all of it, sessions run on it, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.files import ROOT
from tests.support.processes import alive
from tests.support.shell import environment


def up(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "fleet_up.py"), "--", *words]
    return subprocess.run(command, env=environment("unused"), capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.long
def test_sessions_run_on_what_compose_describes_and_nothing_is_left(tmp_path: Path) -> None:
    client = ROOT / "tests" / "support" / "programs" / "fleet_client.py"
    done = up(sys.executable, str(client), str(tmp_path))
    assert done.returncode == 0, done.stderr
    reported: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert reported["statuses"] == ["completed"] * len(reported["statuses"])
    assert (reported["whole"], reported["effects"], reported["by_http"]) == (True, True, True), reported
    assert [worker[1:] for worker in reported["workers"]] == [[True, "procrastinate"]] * 2
    assert reported["not_fine"] == []
    pids = [int(one.partition("=")[2]) for one in reported["pids"].split()]
    assert len(pids) == 3
    assert [pid for pid in pids if alive(pid)] == []
