"""Variables are part of how a session is started: values of --env again at every start, of secrets only the names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import relight
from relight.agents.codex.adapter import Codex
from relight.errors import NotResumable, UsageError
from relight.ports.agent import Surroundings
from tests.support.files_on_disk import files_below
from tests.support.shell import Shell

PYTHON = sys.executable
SECRET = "not-a-real-value-" + "7788990011"
TELL = "import os; print(os.environ.get('MODE'), os.environ.get('COLOUR'), bool(os.environ.get('SERVICE_CODE')))"


@pytest.fixture
def begun(shell: Shell) -> Shell:
    flags = ["--env", "MODE=fast=1", "--env", "COLOUR", "--secret", "SERVICE_CODE"]
    command = [PYTHON, "-c", TELL + "; raise SystemExit(1)"]
    done = shell.run("run", "--name", "job", *flags, "--", *command, COLOUR="red", SERVICE_CODE=SECRET)
    assert done.stdout == "fast=1 red True\n", done.stderr
    return shell


def test_values_are_there_again_and_what_is_missing_is_named_before_anything_starts(begun: Shell) -> None:
    info = begun.json("show", "job")
    assert (info["env"], info["secrets"]) == ({"MODE": "fast=1", "COLOUR": "red"}, ["SERVICE_CODE"])
    refused = begun.run("resume", "job", "--yes")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "SERVICE_CODE" in refused.stderr
    assert begun.json("show", "job") == info
    for _ in range(2):  # a resume of a resume has all that the first start had
        assert begun.run("resume", "job", "--yes", SERVICE_CODE=SECRET).stdout == "fast=1 red True\n"
    assert begun.run("fork", "job", "--name", "other").returncode == 0
    with relight.open(begun.store, create=False) as rl:
        made = rl.sessions.get("other")
    assert (made.env, made.secrets) == (info["env"], info["secrets"])


def test_the_value_of_a_secret_rests_nowhere(begun: Shell) -> None:
    for path, data in files_below(begun.store.parent):
        assert SECRET.encode() not in data, path


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--env", "API_TOKEN=" + SECRET], "looks like a secret"),
        (["--env", "URL=postgresql://me:" + "hunter2hunter2" + "@host/db"], "looks like a secret"),
        (["--env", "NOWHERE"], "not set here"),
        (["--env", "1X=2"], "invalid variable name"),
        (["--env", "RELIGHT_SESSION=x"], "set by relight itself"),
        (["--secret", "NOWHERE"], "not set here: NOWHERE"),
    ],
    ids=["a secret name", "a secret value", "unset", "no name", "ours", "unset secret"],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_made(shell: Shell, flags: list[str], why: str) -> None:
    done = shell.run("run", "--name", "job", *flags, "--", "true")
    assert done.returncode == 2
    assert why in done.stderr
    assert shell.json("list") == []


def test_a_worker_on_another_machine_has_the_values_and_needs_the_secrets(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        made = rl.queues.submit(
            ["true"], name="job", directory=str(tmp_path), env={"MODE": "fast"}, secrets=["ELSEWHERE"]
        )
        assert (made.env, made.secrets) == ({"MODE": "fast"}, ["ELSEWHERE"])
        with pytest.raises(NotResumable, match="missing: ELSEWHERE"):
            rl.runs.check_start("job")
        with pytest.raises(UsageError):
            rl.queues.submit(["true"], directory=str(tmp_path), env={"MODE": 5})  # type: ignore[dict-item]


def test_the_variable_that_codex_is_configured_to_take_its_key_from_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        'model_provider = "mine"\n[model_providers.mine]\nenv_key = "MY_PROVIDER_CODE"\n'
    )
    here = Surroundings(directory=str(tmp_path), environment={"CODEX_HOME": str(tmp_path)})
    assert Codex().configured_secrets(here) == ("MY_PROVIDER_CODE",)
