"""Evidence about processes, from /proc and from psutil: the same answers, and no death where nothing can be seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from relight.ports.runtime import SESSION_VARIABLE
from relight.system import processes, psutil_table
from relight.system.machine import SystemHost, clock_since_boot
from relight.system.platform import Platform, this_platform
from relight.system.proc_table import ProcTable
from relight.system.process_facts import Facts
from relight.system.process_table import NoProcessTable, ProcessTable, table_for
from relight.system.psutil_table import PsutilTable
from relight.testing.runtime_kit import until

DARWIN = Platform("darwin")
SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"]


@pytest.fixture(params=["proc", "psutil"] if this_platform().has_proc else ["psutil"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ProcessTable:
    found: ProcessTable = ProcTable() if request.param == "proc" else PsutilTable(Platform("linux"))
    monkeypatch.setattr(processes, "process_table", lambda: found)
    return found


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        SLEEPER, env={**os.environ, SESSION_VARIABLE: "0" * 32}, stdin=subprocess.DEVNULL, process_group=0
    ) as process:
        yield process
        process.kill()


class OneProcess(NoProcessTable):
    """A table that shows one process, on a machine whose boots have the id `boot`."""

    def __init__(self, facts: Facts | None, boot: str = "") -> None:
        self._facts, self._boot = facts, boot

    def boot(self) -> str:
        return self._boot

    def facts(self, pid: int) -> Facts | None:
        return self._facts


def test_each_platform_gets_the_source_that_it_has() -> None:
    assert isinstance(table_for(Platform("linux", has_proc=True)), ProcTable)
    assert isinstance(table_for(Platform("linux")), PsutilTable)
    assert isinstance(table_for(DARWIN), PsutilTable)
    assert this_platform().is_linux == sys.platform.startswith("linux")


def test_a_process_is_seen_with_its_start_parent_group_mark_and_words(
    table: ProcessTable, sleeper: subprocess.Popen[bytes]
) -> None:
    until(lambda: table.words(sleeper.pid) == SLEEPER, "it has become the program")
    facts = table.facts(sleeper.pid)
    assert facts is not None
    assert (facts.parent, facts.group, facts.is_zombie) == (os.getpid(), sleeper.pid, False)
    assert facts.session == os.getsid(0)
    assert int(facts.start) >= int(table.facts(os.getpid()).start)  # type: ignore[union-attr]
    assert os.path.realpath(sys.executable) == os.path.realpath(table.executable(sleeper.pid))
    assert sleeper.pid in table.pids() and sleeper.pid in table.children()
    assert processes.marker("0" * 32) in table.environment(sleeper.pid)
    assert sleeper.pid in processes.LocalProcesses().orphans("0" * 32)
    processes.LocalProcesses().end([sleeper.pid], seconds=5)
    assert table.facts(sleeper.pid) is None or processes.is_zombie(sleeper.pid)


def test_an_open_file_is_found_by_its_real_path(table: ProcessTable, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w"):
        assert str((tmp_path / "log").resolve()) in table.files(os.getpid())


@pytest.mark.guarantee("G12")
def test_an_owner_is_gone_as_soon_as_it_is_killed_even_before_it_is_waited_for(
    table: ProcessTable, sleeper: subprocess.Popen[bytes]
) -> None:
    host = SystemHost(table)
    facts = table.facts(sleeper.pid)
    assert facts is not None
    owner = msgspec.structs.replace(host.owner("x"), pid=sleeper.pid, pid_start=int(facts.start))
    assert host.is_gone(owner) is False
    assert host.is_gone(msgspec.structs.replace(owner, pid_start=owner.pid_start + 1)) is True, "a reused pid"
    sleeper.send_signal(signal.SIGKILL)
    until(lambda: host.is_gone(owner) is True, "a zombie is dead")
    sleeper.wait()
    assert host.is_gone(owner) is True


def test_a_process_that_is_only_hidden_is_not_taken_for_dead(sleeper: subprocess.Popen[bytes]) -> None:
    host = SystemHost(OneProcess(None, boot="this"))  # as with hidepid, or where psutil is denied
    owner = msgspec.structs.replace(host.owner("x"), pid=sleeper.pid, pid_start=5)
    assert host.is_gone(owner) is None
    sleeper.kill()
    sleeper.wait()
    assert host.is_gone(owner) is True


def test_without_an_id_of_the_boot_the_hosts_name_decides() -> None:
    facts = Facts("5", is_zombie=False, parent=1, group=1, session=1)
    host = SystemHost(OneProcess(facts))
    owner = host.owner("x")
    assert (owner.boot, owner.pid_start) == ("", 5)
    assert host.is_gone(owner) is False
    assert host.is_gone(msgspec.structs.replace(owner, pid_start=6)) is True
    assert host.is_gone(msgspec.structs.replace(owner, pid_start=6, host="elsewhere")) is None
    assert host.is_gone(msgspec.structs.replace(owner, boot="known")) is None, "ours is unknown, not another"
    rebooted = SystemHost(OneProcess(facts, boot="second"))
    assert rebooted.is_gone(msgspec.structs.replace(owner, boot="first")) is True


def test_where_psutil_sees_nothing_nobody_is_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    blind = table_for(Platform("linux"))
    assert isinstance(blind, NoProcessTable)
    owner = msgspec.structs.replace(SystemHost(blind).owner("x"), boot="known", pid_start=5)
    assert SystemHost(blind).is_gone(msgspec.structs.replace(owner, pid_start=owner.pid_start + 1)) is None
    assert SystemHost(blind).owner("y").pid_start == 0


def test_a_start_time_does_not_move_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    before = PsutilTable(DARWIN).facts(os.getpid())
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: 1.0)
    assert psutil.Process().create_time() < 1e9, "what psutil tells does"
    assert PsutilTable(DARWIN).facts(os.getpid()) == before


def test_a_boot_is_known_by_the_id_that_its_kernel_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil_table, "_sysctl", lambda name: f"id of {name.decode()}")
    assert PsutilTable(DARWIN).boot() == "id of kern.bootsessionuuid"
    assert PsutilTable(Platform("freebsd14")).boot() == "id of kern.boot_id"
    assert PsutilTable(Platform("linux")).boot() == ""
    monkeypatch.undo()
    assert PsutilTable(DARWIN).boot() == "", "no such call in this C library"


def test_leases_are_measured_by_a_clock_that_runs_while_the_machine_sleeps() -> None:
    assert clock_since_boot(Platform("linux")) == "CLOCK_BOOTTIME"
    assert clock_since_boot(DARWIN) == "CLOCK_MONOTONIC_RAW"
    assert clock_since_boot(Platform("freebsd14")) == "CLOCK_MONOTONIC"


@pytest.mark.parametrize("broken", [psutil.NoSuchProcess(1), psutil.AccessDenied(1), OSError(22, "gone")])
def test_what_psutil_cannot_read_is_empty(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    def refuse(*_: Any) -> Any:
        raise broken

    monkeypatch.setattr(psutil, "Process", refuse)
    table = PsutilTable(DARWIN)
    assert table.facts(1) is None
    assert (table.environment(1), table.words(1), table.executable(1), table.input(1)) == ([], [], "", "")
    assert list(table.files(1)) == []


def test_a_zombie_that_psutil_cannot_read_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> Any:
        raise psutil.ZombieProcess(pid)

    monkeypatch.setattr(psutil, "Process", refuse)
    facts = PsutilTable(DARWIN).facts(os.getpid())
    assert facts is not None and facts.is_zombie
