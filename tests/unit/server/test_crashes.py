"""A server, or a supervisor it started, dies at a fault point of a resume: nothing hangs, nothing is lost of sight.

After the restart the session is owned, in line, or listed with a reason; and the next resume brings it to its end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.values.options import RunOptions
from tests.support.figures import Figure
from tests.support.server_process import Place, Server, reaches

pytestmark = [pytest.mark.crash, pytest.mark.guarantee("G12"), pytest.mark.timeout(900)]
COMMIT = ("commit.committed", "commit.enter", "commit.begun", "commit.written", "commit.told")
CLAIM = ("resume.claimed", "resume.planned")


def made(location: Place) -> relight.Checkpoint:
    """A session that was begun, and has two steps."""
    with relight.open(location.shell.store) as rl:
        info = rl.runs.create(
            [sys.executable, "agent.py"],
            RunOptions(directory=str(location.shell.directory), agent="python", name="job"),
        )
        rl.runs.send(info.id, "first")
        reported = rl.runs.send(info.id, "second")
        assert reported is not None
        return reported


def shown(server: Server) -> Any:
    return server.call("GET", "/api/sessions/job")[1]


def comes_to_its_end(location: Place, server: Server) -> None:
    location.may_end("job")
    status, resumed = server.call("POST", "/api/sessions/job/resume", {"prompt": "go on"})
    assert status == 201 or shown(server)["status"] in ("spawning", "working", "completed"), resumed
    reaches(server, "job", "completed")


def test_a_supervisor_killed_anywhere_before_its_program_leaves_a_session_that_goes_on(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    points = [f"{point}:1" for point in (*CLAIM, *COMMIT)] + [f"{point}:2" for point in COMMIT]
    tried, seen = points[: sample(1, proof=len(points))], set()
    for number, point in enumerate(tried):
        (base := tmp_path / str(number)).mkdir()
        location = Place(base)
        before = made(location)
        server = location.serve(RELIGHT_FAULT=f"{point}:kill")
        status, _ = server.call("POST", "/api/sessions/job/resume", {})
        assert status in (201, 409), point
        server.kill()
        server.more.pop("RELIGHT_FAULT")
        server.start()
        info = shown(server)
        seen.add(info["status"])
        assert info["seq"] >= before.seq and (info["status"] in ("queued", "working", "spawning") or info["reason"])
        comes_to_its_end(location, server)
        location.close(server)
    figure("G12", f"{len(tried)} supervisors and servers killed inside a start: it was {', '.join(sorted(seen))}")


def test_a_server_killed_while_it_puts_a_session_in_line_has_put_it_there_or_not(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    tried, seen = COMMIT[: sample(1, proof=len(COMMIT))], set()
    for number, point in enumerate(tried):
        (base := tmp_path / str(number)).mkdir()
        location = Place(base)
        before = made(location)
        server = location.serve(RELIGHT_FAULT=f"{point}:1:kill")
        headers = {"Idempotency_Key": "once"}
        body = {"queue": "night", "prompt": "third"}
        assert server.call("POST", "/api/sessions/job/resume", body, **headers)[0] == 0, point
        assert server.process.wait(60) == -9, point
        server.kill()
        server.more.pop("RELIGHT_FAULT")
        server.start()
        with relight.open(location.shell.store) as rl:
            info, durable = rl.sessions.get("job"), point in ("commit.committed", "commit.told")
        seen.add("in line" if info.queue else "as it was")
        assert (info.queue, info.seq) == (("night", before.seq + 1) if durable else (None, before.seq)), point
        status, problem = server.call("POST", "/api/sessions/job/resume", body, **headers)
        assert status == 409 and "outcome unknown" in problem["detail"]
        (entry,) = server.call("GET", "/api/actions")[1]["items"][-1:]
        assert entry["verb"] == "resume" and entry["outcome"] == "begun"  # and never anything else
        comes_to_its_end(location, server)
        location.close(server)
    figure("G12", f"{len(tried)} servers killed while they put a session in line: it was {', '.join(sorted(seen))}")
