"""A network that is really cut: another worker takes over, and who was cut off is refused when the network is back.

`tests.integration.fleet.partition` runs it in namespaces of its own: as root, or as any user where the machine allows
that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROOF, ROOT
from tests.integration.fleet.partition import CUTS, LEASE, PATIENCE, SWEEP
from tests.support.figures import Figure
from tests.support.redis_server import redis_program

SLACK_SECONDS = 15.0
"""for a machine that does many other things; the lease and sweep that are not these are 30 s and more"""
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 30.0
"""Redis is waited for so long, PostgreSQL as its address says"""
BOUND_SECONDS = 240.0


CUT = {"postgres": "silent", "redis": "down"}
"""of all ways to cut a network, the one that the suite takes"""


@pytest.mark.long
@pytest.mark.crash
@pytest.mark.timeout(300)
@pytest.mark.guarantee("G8")
@pytest.mark.guarantee("G12")
def test_a_network_cut_in_two_strands_nothing_and_lets_nobody_write_twice(
    tmp_path: Path, program: Callable[[str], str], figure: Figure
) -> None:
    for needed in ("ip", "nsenter"):
        program(needed)
    alone = [program("unshare"), *(() if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps"))]
    alone += ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*alone, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode:
        how = "run the tests as root, or allow it: sysctl -w kernel.unprivileged_userns_clone=1"
        pytest.fail(f"no network of its own on this machine: {tried.stderr.strip()}; {how}", pytrace=False)
    with ThreadPoolExecutor() as both:  # nearly all of it is waiting for leases and time limits
        played = {kind: both.submit(_play, alone, kind, tmp_path / kind, redis_program(program)) for kind in CUT}
    for kind, reported in played.items():
        _judge(kind, reported.result(), figure)


def _play(alone: list[str], kind: str, directory: Path, redis: str) -> Any:
    """Cut the network of a fleet that has one of its own; what was seen, by the way it was cut."""
    directory.mkdir()
    cuts = CUTS if PROOF else [CUT[kind]]
    stage = [sys.executable, "-m", "tests.integration.fleet.partition", kind, str(directory), redis, *cuts]
    with subprocess.Popen(
        [*alone, *stage], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None and running.stderr is not None
            reported = running.stdout.read() or running.stderr.read()[-4000:]
            assert running.wait(BOUND_SECONDS) == 0, reported
        finally:
            running.kill()  # and with it everything that it started
    return json.loads(reported)


def _judge(kind: str, found: Any, figure: Figure) -> None:
    longest = PATIENCE + CONNECT_SECONDS if kind == "postgres" else ANSWER_SECONDS
    for seen in found.values():
        writer = seen["writer"]
        assert seen["takeover"] <= LEASE + SWEEP + SLACK_SECONDS, seen
        assert writer["whole"], seen
        assert writer["longest"] <= longest + SLACK_SECONDS, seen
        assert seen["attempts"] == 4, seen
        assert seen["told"] <= 2, seen
    took = " and ".join(f"{seen['takeover']:.1f} s ({how})" for how, seen in found.items())
    figure("G12", f"{kind}, its network really cut: taken over after {took} (lease {LEASE:g} + sweep {SWEEP:g} s)")
    figure("G8", f"{kind}, the network back: the old writers refused, 0 late writes, 0 acknowledged lost, 0 twice")
