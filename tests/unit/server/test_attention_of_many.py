"""Ten thousand sessions of which 233 wait: every place that says how many, says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import relight
from relight.ports.store import Record
from tests.support.many_sessions import records
from tests.support.server_harness import ServerHarness
from tests.support.shell import Shell

SESSIONS, WAITING, EVERY = 10_000, 233, 41
"""the oldest among them waits as much as the newest"""


def made(began: float) -> Iterator[Record]:
    for number, one in enumerate(records(SESSIONS, begins_us=round(began * 1e6))):
        waits = number % EVERY == 0 and number // EVERY < WAITING
        assert one.head is not None
        question = "go on?" if waits else None
        status = "waiting" if waits else "completed"
        head = msgspec.structs.replace(one.head, status=status, reason=None, question=question)
        yield msgspec.structs.replace(one, head=head)


def test_every_place_says_how_many_wait(tmp_path: Path) -> None:
    began = time.time() - SESSIONS
    with relight.open(tmp_path / "p.db") as rl:
        rl.store.import_sessions(list(made(began)), [], [])
    harness = ServerHarness(tmp_path / "p.db")
    with harness.client() as client:
        listed = client.get("/?status=waiting", headers={"Accept": "text/html"}).text
        said = {
            "strip": f'data-needs="{WAITING}"' in listed and f"Needs you {WAITING}" in listed,
            "filter": f"waiting ({WAITING})" in listed,
            "operations": f"Waiting ({WAITING})" in client.get("/operations", headers={"Accept": "text/html"}).text,
            "digest": f"{WAITING} wait for you" in client.get(f"/digest?since={int(began)}").text,
            "metrics": f'relight_sessions{{status="waiting"}} {WAITING}.0' in client.get("/metrics").text,
        }
        found = client.get("/api/attention").json()
        said["attention"] = (found["total"], found["counts"], found["exact"]) == (WAITING, {"waiting": WAITING}, True)
        for page in (client.get("/api/sessions?status=waiting&limit=1").json(), client.get("/api/sessions").json()):
            said["counts"] = page["counts"]["waiting"] == WAITING
        page = client.get("/api/sessions?status=waiting&limit=1").json()
        said["total"] = (page["total"], page["exact"]) == (WAITING, True)
        said["both"] = client.get("/api/sessions?status=waiting,completed&limit=1").json()["total"] == SESSIONS
        said["running"] = client.get("/api/sessions?status=waiting,terminated&limit=1").json()["exact"] is False
        said["statistics"] = client.get("/api/stats").json()["waiting"] == WAITING
    harness.close()
    shell = Shell(tmp_path / "p.db", tmp_path)
    said["relight"] = f"needs you {WAITING}" in shell.run("--plain").stdout
    assert all(said.values()), said
