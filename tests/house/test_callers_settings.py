"""What a test starts prints the same whoever runs the tests: settings of the caller do not reach it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "PYTEST_ADDOPTS": "-vv --color=yes",
    "PYTEST_THEME_MODE": "light",
    "PYTHONWARNINGS": "always",
    "PYTHONSAFEPATH": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONOPTIMIZE": "",
    "FORCE_COLOR": "1",
    "PY_COLORS": "1",
}


def test_no_setting_that_changes_output_reaches_a_child() -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    child = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert sorted(SETTINGS.keys() & child.keys()) == []


def test_a_run_with_the_callers_settings_starts_its_programs_without_them(tmp_path: Path) -> None:
    one = f"{__file__}::{test_no_setting_that_changes_output_reaches_a_child.__name__}"
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "0",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'base'}",
            one,
        ],
        cwd=ROOT,
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout + ran.stderr
