"""`logging` under `relight`: structured, silent by default, and nearly free where nobody reads it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import LeaseLost, StoreUnavailable, Waiting
from relight.sessions.session import writer_of
from relight.telemetry.logs import SESSION
from relight.telemetry.spans import commit_span
from relight.testing import ScriptedModel

FIELDS = ("session", "seq", "attempt", "epoch")


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def run_twice(rl: relight.Relight) -> None:
    model = ScriptedModel([{"look": {}}, "Done."])
    with pytest.raises(Waiting), rl.session("fix") as s:
        s.ask("Which one?")
    rl.runs.send("fix", "the second")
    with rl.session("fix") as s:
        s.ask("Which one?")
        s.run(model, tools={"look": lambda: "seen"}, prompt="go")


def test_openings_and_ends_are_info_and_commits_are_debug(
    relight_store: relight.Relight, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "relight")
    run_twice(relight_store)
    info = told(caplog, logging.INFO)
    assert info[0] == "fix opened"
    assert "fix waiting: Which one?" in info
    assert any(line.startswith("fix resumed: attempt 2, from @") for line in info)
    assert info[-1] == "fix completed"
    debug = told(caplog, logging.DEBUG)
    assert any(line.endswith(" message") for line in debug)
    assert "fix: look begins (call_0_0)" in debug and "fix: call_0_0 ended: ok" in debug
    assert {record.name for record in caplog.records} == {"relight.session", "relight.tool"}
    last = relight_store.sessions.get("fix")
    seen = [tuple(getattr(record, field) for field in FIELDS) for record in caplog.records]
    assert seen[-1] == (last.id, last.seq, 2, seen[-1][3]) and seen[-1][3] > seen[0][3] > 0


def test_retries_are_warnings(relight_store: relight.Relight, caplog: pytest.LogCaptureFixture) -> None:
    with relight_store.session("fix") as s:
        model, retry = ScriptedModel([ConnectionError("reset by peer"), "Done."]), relight.Retry(first_seconds=0.001)
        s.run(model, prompt="go", retry=retry)
    assert len(told(caplog, logging.WARNING)) == 1
    assert "ConnectionError: reset by peer" in told(caplog, logging.WARNING)[0]


def test_an_unknown_outcome_is_a_warning(relight_store: relight.Relight, caplog: pytest.LogCaptureFixture) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    for run in (die, lambda: None):
        with suppress(KeyboardInterrupt), relight_store.session("fix") as s:
            s.run(ScriptedModel([{"pay": {}}, "Done."]), tools={"pay": run}, prompt="go")
    assert told(caplog, logging.WARNING) == ["fix: call_0_0 ended: unknown"]


@pytest.mark.parametrize(
    ("error", "logger", "text"),
    [
        (LeaseLost("fix", mine=1, current=2), "relight.session", "the lease is lost"),
        (StoreUnavailable("gone"), "relight.store", "the lease could not be renewed: gone"),
    ],
)
def test_trouble_with_a_lease_is_a_warning(
    relight_store: relight.Relight,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    logger: str,
    text: str,
) -> None:
    def renew(*args: Any, **more: Any) -> None:
        raise error

    with relight_store.session("fix") as s:
        recorder = writer_of(s).recorder
        with monkeypatch.context() as patch:
            patch.setattr(recorder.store, "renew", renew)
            recorder.beat()
        recorder.lost = None
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.name == logger and text in record.getMessage()
    assert [getattr(record, field) for field in FIELDS] == [s.id, 1, 1, 1]


def test_a_handler_that_fails_is_no_failed_commit(
    relight_store: relight.Relight, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(logging.Handler):
        """A program's handler with a bug."""

        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no disk for logs")

    logger, handler = logging.getLogger("relight"), Failing(logging.INFO)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with relight_store.session("fix") as s:
            s.complete("done")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert relight_store.sessions.get("fix").status == "completed"
    assert "no disk for logs" in capsys.readouterr().err


SILENT = """
import logging, sys, relight
for _ in range(2):
  with relight.open(sys.argv[1]) as rl, rl.session("s") as s:
    s.append({"role": "user", "content": "x"})
    relight.telemetry.logs.warn(relight.telemetry.logs.STORE, "trouble", {})
    rl._context.notify("its files are not captured")
assert "opentelemetry" not in sys.modules
"""


def test_a_program_that_asks_for_nothing_hears_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SILENT, tmp_path / "r.db"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


LATE = """
import sys, relight
with relight.open("memory:") as rl:
    with rl.session("first") as s:
        s.append({"role": "user", "content": "x"})
    assert "logging" not in sys.modules
    import logging
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
    rl.session("second").complete()
"""


def test_a_program_that_imports_logging_later_reads_what_comes_then(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("relight.session second opened\nrelight.session second completed\n", "")


def test_switched_off_it_costs_a_commit_less_than_a_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with calls of a function that does nothing, in the same moment: a microsecond depends on the machine."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)

    def nothing(session: str, kind: str) -> None:
        pass

    def checks() -> float:
        began = time.thread_time()
        for _ in range(5_000):
            SESSION.reads(logging.INFO)
            commit_span("s", "message")
        return time.thread_time() - began

    def calls() -> float:
        began = time.thread_time()
        for _ in range(5_000):
            nothing("s", "message")
        return time.thread_time() - began

    assert min(checks() for _ in range(21)) / min(calls() for _ in range(21)) < 12
