"""*Needs you* is one number, exact at any size: strip, title, API, command line and operations say the same."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from relight.stores.sqlite.store import SqliteStore
from relight.system.machine import SystemClock
from relight.values.session import Head, Identity
from relight.values.status import Status
from tests.support.server_harness import ServerHarness
from tests.support.shell import Shell

MANY: dict[Status, int] = {
    "waiting": 233,
    "failed": 300,
    "terminated": 210,
    "completed": 400,
    "halted": 207,
}
SECONDS = 2.0


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crowd") / "p.db"
    store = SqliteStore(path, SystemClock())
    number = 0
    for status, many in MANY.items():
        for _ in range(many):
            number += 1
            session = f"{number:032x}"
            question = "go on?" if status == "waiting" else None
            identity = Identity(id=session, name=f"s{number}", created_us=number)
            store.create(identity, Head(session=session, status=status, question=question, updated_us=number))
    store.close()
    return path


def test_every_door_says_the_same_number(crowd: Path) -> None:
    """W-A7."""
    needing = sum(many for status, many in MANY.items() if status != "completed")
    harness = ServerHarness(crowd)
    client = harness.client()
    took = []
    for _ in range(3):
        began = time.monotonic()
        found = client.get("/api/attention").json()
        took.append(time.monotonic() - began)
    assert found["total"] == needing == sum(found["counts"].values())
    assert {kind: found["counts"][kind] for kind in ("waiting", "failed", "terminated", "halted")} == {
        status: MANY[status] for status in ("waiting", "failed", "terminated", "halted")
    }
    assert client.get("/api/sessions").json()["counts"]["waiting"] == MANY["waiting"]
    listed = client.get("/api/attention", params={"limit": 300}).json()
    assert [one["status"] for one in listed["items"]].count("waiting") == MANY["waiting"]
    assert (len(listed["items"]), listed["total"], len(found["items"])) == (300, needing, 5)
    strip = client.get("/strip").text
    assert f'data-needs="{needing}"' in strip and f"and {needing - 5} more" in strip
    page = client.get("/operations").text
    reported = {name: int(number) for name, number in re.findall(r"<h2>([A-Z][a-z ]+) \((\d+)\)</h2>", page)}
    assert {name: reported[name] for name in ("Waiting", "Failed", "Stuck or lost", "Halted")} == {
        "Waiting": MANY["waiting"],
        "Failed": MANY["failed"],
        "Stuck or lost": MANY["terminated"],
        "Halted": MANY["halted"],
    }
    assert min(took) < SECONDS
    harness.close()
    said = Shell(crowd, crowd.parent).run("--plain")
    assert f"and {needing - 5:,} more" in said.stdout, said.stdout
