"""A user of a fleet: puts sessions in line, waits until they are done, and tells what it saw as one JSON document.

Started by tools/fleet_up.py, which says where everything is. Each session appends its name to a file, once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import relight

SECONDS = 60.0
SESSIONS = 4
AGENT = """
import os, sys
import relight

with relight.open() as rl, rl.session("any-name") as s:
    s.append({"role": "user", "content": "count"})
    def count():
        out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(out, (s.id + "\\n").encode())
        return "counted"
    s.once("count", count)
    s.complete()
"""


def seen_by_http() -> list[Any]:
    token = Path(os.environ["RELIGHT_SERVER_TOKEN"]).read_text(encoding="ascii").strip()
    request = urllib.request.Request(
        f"{os.environ['RELIGHT_SERVER']}/api/sessions", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        document = json.load(answer)
    found: list[Any] = document if isinstance(document, list) else next(iter(document.values()))
    return found


def main(directory: Path) -> None:
    effects = directory / "effects"
    (directory / "agent.py").write_text(AGENT)
    with relight.open() as rl:
        made = [
            rl.queues.submit(
                [sys.executable, "agent.py", str(effects)], directory=str(directory), name=f"job-{number}"
            ).id
            for number in range(SESSIONS)
        ]
        deadline = time.monotonic() + SECONDS
        while any(rl.sessions.get(one).status != "completed" for one in made) and time.monotonic() < deadline:
            threading.Event().wait(0.1)
        statuses = [rl.sessions.get(one).status for one in made]
        whole = rl.history.verify().ok
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "relight.cli", "worker", "--list", "--json"], stdout=subprocess.PIPE, check=True
    )
    doctor = subprocess.run(
        [sys.executable, "-P", "-m", "relight.cli", "doctor", "--json"], stdout=subprocess.PIPE, check=True
    )
    reported = {
        "statuses": statuses,
        "whole": whole,
        "effects": sorted(effects.read_text().split()) == sorted(made),
        "by_http": sorted(one["id"] for one in seen_by_http()) == sorted(made),
        "workers": [[one["name"], one["alive"], one["engine"]] for one in json.loads(listed.stdout)],
        "not_fine": [one for one in json.loads(doctor.stdout) if not one["fine"]],
        "pids": os.environ["RELIGHT_FLEET_PIDS"],
    }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
