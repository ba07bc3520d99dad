"""A resume that is refused leaves the journal as it was, also where it was asked to mend it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from relight.cli.app.group import run
from relight.values.options import RunOptions
from tests.support.server_harness import Answer, ServerHarness


def logical(store: Path) -> dict[str, list[Any]]:
    """Every row of every table, in order."""
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr) for name in tables}
    connection.close()
    return rows


def damage_newest(store: Path) -> None:
    connection = apsw.Connection(str(store))
    connection.set_busy_timeout(5000)
    connection.execute("UPDATE bodies SET data = x'00ff' WHERE id = (SELECT max(body) FROM steps)")
    assert connection.changes() == 1
    connection.close()


@pytest.fixture
def damaged(harness: ServerHarness, tmp_path: Path) -> Path:
    """A session whose newest step is damaged; its program."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    made = harness.rl.runs.create([str(program)], RunOptions(directory=str(tmp_path), agent="sh", name="job"))
    harness.rl.runs.send(made.id, "first")
    harness.rl.runs.send(made.id, "second")
    damage_newest(harness.store)
    return program


def test_a_damaged_session_is_not_mended_for_a_resume_that_cannot_start(harness: ServerHarness, damaged: Path) -> None:
    damaged.unlink()
    before = logical(harness.store)
    for body in ({"from_last_good": True}, {}):
        refused = Answer(harness.client().post("/api/sessions/job/resume", json=body))
        assert refused.status == 400 and "no program" in refused.document["detail"], refused.document
        assert logical(harness.store) == before


def test_damage_is_told_by_its_own_name_however_a_resume_is_asked_for(
    harness: ServerHarness, damaged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELIGHT_STORE", str(harness.store))
    before = logical(harness.store)
    for ref in ("job", "job@2"):
        refused = Answer(harness.client().post(f"/api/sessions/{ref}/resume", json={}))
        assert (refused.status, refused.code) == (409, "RL-5002"), refused.document
        assert any("from_last_good" in hint for hint in refused.document["hints"]), refused.document
    for flags in ([], ["--detach"], ["--queue", "night"]):
        assert run(["resume", "job", *flags]) == 5 and "RL-5002" in capsys.readouterr().err
    assert logical(harness.store) == before and damaged.exists()


def test_a_place_in_line_that_is_refused_leaves_nothing_behind(harness: ServerHarness, tmp_path: Path) -> None:
    harness.rl.runs.create(["true"], RunOptions(directory=str(tmp_path), agent="true", name="job"))
    with harness.rl.session("own") as s:
        s.append({"role": "user", "content": "one"})
        s.append({"role": "user", "content": "two"})
    with harness.rl.session("job"):
        before = logical(harness.store)
        for ref, body in (("job", {}), ("job", {"prompt": "x"}), ("own@1", {})):
            refused = harness.client().post(f"/api/sessions/{ref}/resume", json={"queue": "night", **body})
            assert Answer(refused).status == 409
            assert logical(harness.store) == before, (ref, body)


FORGOTTEN = (
    *(
        f"job --queue night {flag}"
        for flag in ("--restore", "--without-secrets", "--from-last-good", "--now", "--retries=1", "--detach")
    ),
    "job --priority=1",
    "job --not-before=+1h",
    *(f"--all {flag}" for flag in ("--restore", "--now", "--retries=1", "--plan=x", "--queue=night")),
)


def test_a_flag_that_would_be_forgotten_is_refused_by_the_command_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "p.db"))
    for words in FORGOTTEN:
        assert run(["resume", *words.split()]) == 2, words
        assert words.split()[-1].partition("=")[0] in capsys.readouterr().err, words


def test_a_dry_run_puts_nothing_in_line(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELIGHT_STORE", str(harness.store))
    harness.rl.runs.create(["true"], RunOptions(directory=str(tmp_path), agent="true", name="job"))
    before = logical(harness.store)
    assert run(["resume", "job", "--queue", "night", "--dry-run"]) == 0 and "job" in capsys.readouterr().out
    assert logical(harness.store) == before


@pytest.mark.parametrize("flag", ["restore", "without_secrets", "from_last_good", "now", "retries"])
def test_what_a_queue_would_forget_is_refused_instead(harness: ServerHarness, tmp_path: Path, flag: str) -> None:
    harness.rl.runs.create(["true"], RunOptions(directory=str(tmp_path), agent="true", name="job"))
    before = logical(harness.store)
    refused = harness.client().post(
        "/api/sessions/job/resume", json={"queue": "night", flag: 1 if flag == "retries" else True}
    )
    assert Answer(refused).status == 400 and logical(harness.store) == before
    assert harness.client().post("/api/sessions/job/resume", json={"queue": "night"}).status_code == 201
