"""Settings from a file: the same for the command line and for programs, below the environment, and wrong ones told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relight import configuration
from relight.errors import UsageError
from relight.settings import SETTINGS
from tests.support.shell import command, environment

PROGRAM = """
import relight
with relight.open() as rl, rl.session("from-a-program") as s:
    s.append({"role": "user", "content": "hello"})
    print(rl.store.url)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a file of settings in it."""
    path = tmp_path / ".config" / "relight" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'store = "sqlite:///{tmp_path}/mine.db"\nhints = false\n')
    return tmp_path


def run(words: list[str], home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    given = {**environment("", HOME=str(home)), **more}
    if not given["RELIGHT_STORE"]:
        del given["RELIGHT_STORE"]
    return subprocess.run(words, env=given, capture_output=True, text=True, timeout=60, check=False)


def test_programs_and_commands_use_the_same_store(home: Path) -> None:
    program = run([sys.executable, "-c", PROGRAM], home)
    assert program.stdout.strip() == f"sqlite:///{home}/mine.db", program.stderr
    listed = run(command("list", "--json"), home)
    assert [one["name"] for one in json.loads(listed.stdout)] == ["from-a-program"]
    doctor = run(command("doctor"), home)
    assert "config.toml: 2 settings" in doctor.stdout
    elsewhere = run(command("list", "--json"), home, RELIGHT_STORE=f"{home}/other.db")
    assert elsewhere.returncode == 5 and f"no store at {home}/other.db" in elsewhere.stderr
    assert (
        "overridden by the environment: RELIGHT_STORE"
        in run(command("doctor"), home, RELIGHT_STORE=f"{home}/other.db").stdout
    )


def test_another_file_can_be_named(home: Path) -> None:
    other = home / "other.toml"
    other.write_text(f'store = "{home}/elsewhere.db"\n')
    assert run([sys.executable, "-c", PROGRAM], home, RELIGHT_CONFIG=str(other)).stdout.strip().endswith("elsewhere.db")
    missing = run(command("list"), home, RELIGHT_CONFIG=str(home / "missing.toml"))
    assert missing.returncode == 2
    assert "cannot read the settings" in missing.stderr
    assert "hint: create the file" in missing.stderr


def applied(text: str, tmp_path: Path, **already: str) -> dict[str, str]:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.toml"
    path.write_text(text)
    given = {"RELIGHT_CONFIG": str(path), **already}
    configuration.apply(given)
    return given


def test_the_environment_wins(tmp_path: Path) -> None:
    given = applied('quota = "1 GB"\nfile_cap = 5000\n', tmp_path, RELIGHT_QUOTA="2 GB")
    assert (given["RELIGHT_QUOTA"], given["RELIGHT_FILE_CAP"]) == ("2 GB", "5000")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("store =", "not TOML"),
        ("\0", "not TOML"),
        ('stoer = "x"', "unknown setting 'stoer'"),
        ('relight_store = "x"', "unknown setting 'relight_store'"),
        ('owner = "x"', "unknown setting 'owner'"),
        ('config = "x"', "unknown setting 'config'"),
        ('token = "x"', "unknown setting 'token'"),
        ('aws_secret_access_key = "x"', "unknown setting"),
        ('[store]\nurl = "x"', "store must be a string, a number"),
        ('store = "a\\u0000b"', "store must be a string, a number"),
        ("store = [1]", "store must be a string, a number"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what) as refused:
        applied(text, tmp_path)
    assert refused.value.hints


def test_every_setting_of_ours_for_people_may_stand_in_the_file(tmp_path: Path) -> None:
    names = [one.name for one in SETTINGS if one.for_people and configuration.is_allowed(one.name)]
    assert {"RELIGHT_STORE", "RELIGHT_BLOBS", "RELIGHT_DURABILITY"} <= set(names)
    given = applied("".join(f'{configuration.key_of(name)} = "x"\n' for name in names), tmp_path)
    assert {name: given[name] for name in names} == dict.fromkeys(names, "x")


def test_a_password_that_others_can_read_is_told(home: Path) -> None:
    path = home / ".config" / "relight" / "config.toml"
    path.write_text('store = "postgresql://u:fake-51@127.0.0.1:1/x"\n')
    path.chmod(0o644)
    open_to_all = run(command("doctor"), home)
    assert "others may read the password" in open_to_all.stdout
    assert "chmod 600" in open_to_all.stdout
    assert "fake-51" not in open_to_all.stdout + open_to_all.stderr
    path.chmod(0o600)
    assert "others may read" not in run(command("doctor"), home).stdout


def test_nothing_is_read_where_there_is_no_file(tmp_path: Path) -> None:
    assert configuration.find_file({"HOME": str(tmp_path)}) is None
    assert configuration.find_file({}) is None
    assert configuration.find_file({"XDG_CONFIG_HOME": str(tmp_path)}) is None
    (tmp_path / "relight").mkdir()
    (tmp_path / "relight" / "config.toml").touch()
    found = configuration.find_file({"XDG_CONFIG_HOME": str(tmp_path), "HOME": os.devnull})
    assert found == tmp_path / "relight" / "config.toml"
