"""A resume that is refused leaves the journal as it was, also where it was asked to mend it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.server.desk import Answer, Desk


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
def damaged(desk: Desk, tmp_path: Path) -> Path:
    """A session whose newest step is damaged; its program."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    made = desk.rl.launch([str(program)], directory=str(tmp_path), agent="sh", name="job")
    desk.rl.send(made.id, "first")
    desk.rl.send(made.id, "second")
    damage_newest(desk.store)
    return program


def test_a_damaged_session_is_not_mended_for_a_resume_that_cannot_start(desk: Desk, damaged: Path) -> None:
    damaged.unlink()
    before = logical(desk.store)
    for body in ({"from_last_good": True}, {}):
        refused = Answer(desk.client().post("/api/sessions/job/resume", json=body))
        assert refused.status == 400 and "no program" in refused.document["detail"], refused.document
        assert logical(desk.store) == before


@pytest.mark.parametrize("flag", ["restore", "without_secrets", "from_last_good", "now", "retries"])
def test_what_a_queue_would_forget_is_refused_instead(desk: Desk, tmp_path: Path, flag: str) -> None:
    desk.rl.launch(["true"], directory=str(tmp_path), agent="true", name="job")
    before = logical(desk.store)
    refused = desk.client().post(
        "/api/sessions/job/resume", json={"queue": "night", flag: 1 if flag == "retries" else True}
    )
    assert Answer(refused).status == 400 and logical(desk.store) == before
    assert desk.client().post("/api/sessions/job/resume", json={"queue": "night"}).status_code == 201
