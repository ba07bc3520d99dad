"""`python -m tests.integration.fleet.partition KIND DIRECTORY REDIS CUT...`: a fleet whose real network is cut in two.

It runs in namespaces of its own, of the network and of processes, made by whoever starts it. A second network is on the
other side of a pair of virtual cables: there a worker and a writer reach the server, here another worker and an heir.
All of it is gone with the first process, however that ends: nothing of the machine's own network is touched. It prints
what it saw as JSON, and ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relight.errors import LeaseHeld
from tests.support.fleet import Fleet, Judged, wait_until
from tests.support.postgres_server import running
from tests.support.redis_server import ALWAYS, RedisServer

LEASE, SWEEP = 3.0, 2.0
PATIENCE = 3.0
"""of the writer, as its address says"""
TURNS = 16
NEAR, FAR = "198.18.0.1", "198.18.0.2"
CUTS = ("down", "silent")
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""as on another machine: it sees no process of the others, and only a lease can tell it whether they live"""
_NOBODY_THERE = "02:00:00:00:00:99"


class Cable:
    """Two ends; the far one is in a namespace that a waiting process holds open."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        here = os.readlink("/proc/self/ns/net")
        wait_until("a namespace", lambda: os.readlink(f"/proc/{self._holder.pid}/ns/net") != here, bound_seconds=60)
        self.there = ("nsenter", "-n", "-t", str(self._holder.pid), "--")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(self._holder.pid))
        _ip("address", "add", f"{NEAR}/30", "dev", "near")
        _ip("link", "set", "near", "up")
        for words in (("set", "lo", "up"), ("set", "far", "up")):
            self._ip_there("link", *words)
        self._ip_there("address", "add", f"{FAR}/30", "dev", "far")

    def cut(self, how: str) -> None:
        """`down`: the far end has no network, and is told so. `silent`: what is sent goes to nobody, either way."""
        if how == "down":
            self._ip_there("link", "set", "far", "down")
            return
        _ip("neighbour", "replace", FAR, "lladdr", _NOBODY_THERE, "dev", "near", "nud", "permanent")
        self._ip_there("neighbour", "replace", NEAR, "lladdr", _NOBODY_THERE, "dev", "far", "nud", "permanent")

    def heal(self, how: str) -> None:
        if how == "down":
            self._ip_there("link", "set", "far", "up")
            return
        _ip("neighbour", "delete", FAR, "dev", "near")
        self._ip_there("neighbour", "delete", NEAR, "dev", "far")

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()

    def _ip_there(self, *words: str) -> None:
        _run(*self.there, "ip", *words)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def served(kind: str, redis_program: str) -> Iterator[tuple[str, str, str]]:
    """The server on both addresses: as it is reached here, from the far end, and from there without much patience."""
    if kind == "redis":
        both = {**ALWAYS, "bind": f"127.0.0.1 {NEAR}", "protected-mode": "no", "port": "6379"}
        server = RedisServer(redis_program, both)
        try:
            far = f"redis://{NEAR}:6379/0"
            yield "redis://127.0.0.1:6379/0", far, far
        finally:
            server.stop()
        return
    with running(own=True, listen_addresses=f"127.0.0.1,{NEAR}") as database:
        with open(database.data / "pg_hba.conf", "a", encoding="utf-8") as rules:
            rules.write(f"host all all {FAR}/32 trust\n")
        database.execute("SELECT pg_reload_conf()")
        near = database.database()
        far = near.replace("127.0.0.1", NEAR)
        yield near, far, f"{far}?tcp_user_timeout={PATIENCE * 1000:.0f}&connect_timeout=3"


WRITER = """
import json, relight, sys, time
from relight.errors import LeaseLost, StoreError
said, longest, unavailable = 0, 0.0, 0
s = relight.open().session(sys.argv[1])
while True:
    begun = time.monotonic()
    try:
        s.append({"role": "user", "content": f"w{said}"})
        said += 1
        print(said, flush=True)
    except LeaseLost as error:
        longest = max(longest, time.monotonic() - begun)
        print(json.dumps({"said": said, "longest": longest, "unavailable": unavailable}), flush=True)
        break
    except StoreError:
        unavailable += 1
    longest = max(longest, time.monotonic() - begun)
    time.sleep(0.1)
"""


class Writer:
    """A program of its own beyond the cable, without a worker: it writes until it is refused."""

    def __init__(self, fleet: Fleet, cable: Cable, url: str, name: str) -> None:
        self.name, self._fleet = name, fleet
        self.out = fleet.directory / f"{name}.out"
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [*cable.there, sys.executable, "-P", "-c", WRITER, name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**fleet.environment, "RELIGHT_STORE": url},
            )

    def lines(self) -> list[str]:
        return self.out.read_text().splitlines()

    def is_succeeded(self) -> bool:
        """Has the heir taken its session over?"""
        try:
            successor = self._fleet.rl.session(self.name)
        except LeaseHeld:
            return False
        successor.append({"role": "user", "content": "heir"})
        successor.complete("done")
        return True

    def verdict(self) -> dict[str, Any]:
        """Once it was refused: what it says, and what is kept of it."""
        wait_until("the writer is refused", lambda: self.process.poll() is not None, bound_seconds=60)
        found: dict[str, Any] = json.loads(self.lines()[-1])
        kept = [one["content"] for one in self._fleet.rl.history.load(self.name).messages]
        acknowledged = [f"w{n}" for n in range(found["said"])]
        in_doubt = [*acknowledged, f"w{found['said']}"]
        return {**found, "whole": kept in ([*acknowledged, "heir"], [*in_doubt, "heir"])}


def cut_in_two(fleet: Fleet, cable: Cable, far: str, impatient: str, how: str) -> dict[str, Any]:
    """One partition, from the cut to the end of everything that it hurt."""
    near, lost = fleet.environment, None
    writer = Writer(fleet, cable, impatient, f"writer-{how}")
    try:
        # Before the sessions, which would be over by the time that it has started on a busy machine.
        wait_until("the writer at work", lambda: len(writer.lines()) >= 3)
        ids = fleet.submit(2, turns=TURNS, seconds=0.3)
        fleet.environment, fleet.within = {**near, "RELIGHT_STORE": far}, cable.there
        lost = fleet.start("--labels", how, name=f"lost-{how}")
        fleet.environment, fleet.within = near, ()
        wait_until("both at work", lambda: set(ids) <= set(fleet.effects.read_text().split()))
        cable.cut(how)
        begun = time.monotonic()
        fleet.within = ELSEWHERE
        other = fleet.start(name=f"other-{how}")
        fleet.within = ()
        wait_until(
            "both taken over", lambda: all(fleet.rl.sessions.get(one).attempt >= 2 for one in ids), bound_seconds=60
        )
        seconds = time.monotonic() - begun
        wait_until("the heir", writer.is_succeeded, bound_seconds=60)
        wait_until("its patience is over", lambda: time.monotonic() > begun + PATIENCE + LEASE)
        cable.heal(how)
        healed = time.monotonic()
        found = {"takeover": seconds, "writer": writer.verdict(), "refused": time.monotonic() - healed}
        wait_until("every session", lambda: all(fleet.rl.sessions.get(one).status == "completed" for one in ids))
        judged = Judged(fleet, ids, turns=TURNS)
        judged.check(fleet)
        other.kill()
        (again,) = fleet.submit(1, turns=1, wants=[how])
        wait_until("the lost one works again", lambda: fleet.rl.sessions.get(again).status == "completed")
        wait_until("nothing old runs", lambda: not lost.programs(), bound_seconds=60)
        return {**found, "back": time.monotonic() - healed, "told": judged.reported, "attempts": judged.attempts}
    finally:
        if writer.process.poll() is None:
            writer.process.kill()
        writer.process.wait()
        if lost is not None:
            lost.close()


def _end_with_whoever_started_it() -> None:
    sys.stdin.read()
    os._exit(1)  # the first process of its namespace: all others end with it


def main(kind: str, directory: str, redis_program: str, *cuts: str) -> None:
    threading.Thread(target=_end_with_whoever_started_it, daemon=True).start()
    settings = {"RELIGHT_LEASE_SECONDS": f"{LEASE:g}", "RELIGHT_SWEEP_SECONDS": f"{SWEEP:g}"}
    cable = Cable()
    try:
        with served(kind, redis_program) as (near, far, impatient):
            fleet = Fleet(Path(directory), near, **settings)
            try:
                found = {how: cut_in_two(fleet, cable, far, impatient, how) for how in cuts}
            finally:
                fleet.close()
    finally:
        cable.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
