"""What people see, at 40, 80 and 120 columns: fixed data, fixed time, compared with the pictures kept beside this file.

A picture that should change is written again with `python -m tests.unit.cli.test_layout`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relight.cli.going_back.rewind import FilesPreview, Preview
from relight.cli.going_back.rewind import lines_of as rewind_lines
from relight.cli.inspect.diff import stat_lines
from relight.cli.inspect.list import Listing
from relight.cli.inspect.list import lines_of as list_lines
from relight.cli.inspect.show import SessionView
from relight.cli.inspect.show import lines_of as show_lines
from relight.cli.maintenance.doctor.doctor import lines_of as doctor_lines
from relight.cli.maintenance.doctor.files import Finding, watching
from relight.cli.render import plan as plan_view
from relight.cli.render.cells import cells
from relight.cli.render.console import rendered
from relight.cli.render.errors import lines_of as error_lines
from relight.cli.render.file_facts import checkpoint_facts, left_out_lines
from relight.cli.render.file_lines import FileRow
from relight.cli.render.steps import lines_of as step_lines
from relight.cli.render.style import Line, Style
from relight.cli.render.table import facts
from relight.errors import Ambiguous, Corrupt, LeaseHeld, ScopeRequired
from relight.files.diff import FileDiff
from relight.history.narration import Row
from relight.values.call import OUTCOME_UNKNOWN, Call
from relight.values.info import Attention, Differing, Doing, FilesState, LeftOut, Reason, ResumePlan, SessionInfo
from relight.values.status import Failure
from relight.values.usage import Usage

PICTURES = Path(__file__).with_name("pictures")
WIDTHS = (40, 80, 120)
NOW = datetime(2026, 11, 15, 5, 48, 0, tzinfo=UTC)
HERE = "/src/shop"


def ago(**delta: float) -> datetime:
    return NOW - timedelta(**delta)


def session(name: str | None, status: Any, *, step: timedelta, cost: float | None = None, **more: Any) -> SessionInfo:
    given: dict[str, Any] = {
        "id": f"{abs(hash_of(name or 'none')):032x}",
        "name": name,
        "status": status,
        "cost": cost,
        "cost_tree": cost,
        "last_step_at": NOW - step,
        "saved_at": NOW - step,
        "updated_at": NOW - step,
        "created_at": NOW - step * 2,
        "head": 214,
        "seq": 214,
        "attempt": 1,
        "labels": {},
        "metadata": {},
        "workspace": {},
        "usage": Usage(),
        "evidence": [],
        "message_count": 212,
        "turns": 61,
        "in_doubt": 0,
        "size_bytes": 38_000_000,
    }
    given.update(more)
    empty: dict[str, Any] = {field: None for field in SessionInfo.__struct_fields__ if field not in given}
    return SessionInfo(**given, **empty)


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[:12].ljust(16, b"\x5a"), "big")


def attention(kind: Any, text: str, cure: str) -> Attention:
    return Attention(kind=kind, since=ago(minutes=4), text=text, cure=cure)


def sessions() -> list[SessionInfo]:
    minute, hour = timedelta(minutes=1), timedelta(hours=1)
    asks = attention("waiting", "asks: push to main?", "relight send fix-login ANSWER")
    quiet = attention("quiet", "no step for 14 min", "relight tail refactor-db -f")
    refused = attention("failed", "key refused", "relight resume nightly-docs")
    tests = Doing(tool="run_tests", since=ago(seconds=38))
    reading = Doing(tool="read_file", since=ago(minutes=14))
    auth = Failure(kind="auth", text="401")
    return [
        session("fix-login", "waiting", step=4 * minute, cost=1.84, directory=HERE, question="push?", attention=asks),
        session("changelog", "completed", step=3 * hour, cost=0.11, directory=HERE, said="Wrote the changelog for 2.4"),
        session("port-to-uv", "working", step=timedelta(seconds=38), cost=0.92, directory="/src/cli", doing=tests),
        session("refactor-db", "working", step=14 * minute, cost=3.1, directory="/api", doing=reading, attention=quiet),
        session("big-sweep", "queued", step=hour, cost=5.02, directory="/src/api", reason="limit", queued_as="limit",
                wake_at=NOW + hour),
        session(
            "nightly-docs", "failed", step=2 * hour, cost=0.2, directory="/docs", reason="key refused", failure=auth,
            attention=refused,
        ),
        session("世界-的-会话", "terminated", step=26 * hour, reason="its process died (pid 4713 on box)", in_doubt=1),
        session(None, "halted", step=50 * hour, reason="loop: run_tests({}) gave the same result 5 times in a row"),
    ]  # fmt: skip


def listing() -> Listing:
    shown = sessions()
    needing = [info for info in shown if info.attention is not None]
    return Listing(sessions=shown, matching=200, more=False, archived=14, total=214, filtered=False, needing=needing)


def mail() -> Call:
    return Call(id="c2", name="send_mail", arguments={"to": "bob"}, effect="once", in_doubt=True, intent_seq=210)


def plan(**more: Any) -> ResumePlan:
    given: dict[str, Any] = {
        "ok": True,
        "session": "b01c77" + "0" * 26,
        "name": "port-to-uv",
        "checkpoint": "b01c77" + "0" * 26 + "@87",
        "status": "terminated",
        "stopped_at": ago(hours=3),
        "why_stopped": "died (signal 9)",
        "forks": False,
        "message_count": 174,
        "in_doubt": [mail()],
        "told": OUTCOME_UNKNOWN,
        "command": ["python", "agent.py", "--all"],
        "reasons": [],
        "plan": "0" * 16,
    }
    return ResumePlan(**{**given, **more})


def row(seq: int, minutes: int, word: str, text: str, mark: str = "", **fields: Any) -> Row:
    return Row(seq=seq, at=ago(minutes=minutes), word=word, text=text, mark=mark, **fields)


def lately() -> list[Row]:
    return [
        row(171, 109, "resume", "attempt 3, resumed from @170 after queued: limit", rule=True, notable=True),
        row(206, 5, "mark", 'checkpoint "tests-green"'),
        row(212, 4, "tool", "run_tests tests/", "✗", seconds=38.0, detail=["2 failed: test_lock, test_sync"]),
        row(213, 4, "model", '"The lock test expects the old path, which is gone since 2.4."', seconds=9.0, cost=0.03),
        row(214, 4, "status", "asks: Run `git push origin main`?", "?"),
        row(215, 3, "rewind", "begins; safety snapshot of main", "…"),
        row(216, 3, "rewind", "back to @206, files too"),
        row(217, 3, "restore", "files restored"),
    ]


def shown_session() -> SessionView:
    info = msgspec.structs.replace(
        sessions()[0], agent="claude", attempt=3, question="Run `git push origin main`?", cost_tree=2.1, cost_rate=0.31,
        usage=Usage(input_tokens=200_000, output_tokens=20_000, cache_read_tokens=1_100_000, cost=1.84),
        evidence=["pid 4711 on box alive", "lease epoch 5, 22 s left"], labels={"team": "web"},
    )  # fmt: skip
    reason = Reason(code="waiting", text="it asks: Run `git push origin main`?", blocks=False)
    shown = plan(in_doubt=[], told=None, reasons=[reason])
    return SessionView(info, shown, lately(), ["queued: limit 04:00"], changed_files())


def failed_session() -> SessionView:
    failure = Failure(kind="agent_exit", text="Traceback (most recent call last):\nKeyError: 'ANTHROPIC_API_KEY'")
    info = msgspec.structs.replace(sessions()[5], failure=failure, reason="exit code 1", command=["python", "docs.py"])
    return SessionView(info, plan(in_doubt=[], told=None), [], [])


def blocked_plan() -> ResumePlan:
    held = Reason(code="lease_held", text="it is running: pid 5120 on box alive", cure="relight tail refactor-db -f")
    return plan(ok=False, name="refactor-db", status="working", stopped_at=None, reasons=[held], in_doubt=[], told=None)


def missing_plan() -> ResumePlan:
    missing = Reason(
        code="workspace_missing", text="workspace missing: /src/shop", cure="relight resume port-to-uv --restore"
    )
    return plan(ok=False, in_doubt=[], told=None, reasons=[missing], files=files_state(missing=[HERE]))


def findings() -> list[Finding]:
    return [
        Finding("store", "~/.local/share/relight/relight.db"),
        Finding("durable", "an acknowledged step survives a crash and a power cut"),
        Finding("journal", "14 sessions, 38 MB"),
        Finding("files", "1.2 GB of captured files in ~/.local/share/relight/relight.db.blobs"),
        Finding("disk", "12 MB free", False, "free some space"),
        watching(PICTURES / "no-such-directory"),
    ]


def preview() -> Preview:
    rows = (
        FileRow("D", "notes.md", "you changed this after @214", "warn"),
        FileRow("M", ".envrc", "+1 -1  may run later", "warn"),
        FileRow("M", "src/auth.py", "+2 -8"),
        FileRow("A", "tests/fixtures/a-rather-long-name-of-a-file-that-is-cut.json", "+40 -0"),
        FileRow("D", "世界\x1b[2J.txt", "+0 -4"),
        FileRow("=", "mine.md", "kept: no snapshot of this session holds it", "dim"),
    )
    return Preview(sessions()[0], 206, "tests-green", [mail()], FilesPreview(rows=rows, touched=5))


def conversation_preview() -> Preview:
    return Preview(sessions()[0], 206, None, [], FilesPreview(stay=True))


def files_state(**more: Any) -> FilesState:
    given: dict[str, Any] = {"workspace": {"main": HERE}, "missing": [], "captured_at": 206}
    return FilesState(**{**given, **more})


def differing() -> list[Differing]:
    return [
        Differing(root="main", path="src/auth.py", what="changed", later=False),
        Differing(root="main", path="notes.md", what="added", later=True),
        Differing(root="main", path="a\x1b]0;owned\x07b", what="deleted", later=False),
    ]


def changed_files() -> FilesState:
    left = [
        LeftOut(root="main", path=".env", reason="secret"),
        LeftOut(root="main", path="data/big.bin", reason="too large", size_bytes=214_000_000),
        LeftOut(root="main", path="node_modules", reason="ignored"),
    ]
    why = "not captured at @212: src/x: permission denied"
    return files_state(since=2, changed=9, lines_added=1412, lines_removed=88, left_out=left, trouble=why)


def file_diffs() -> list[FileDiff]:
    return [
        FileDiff(root="main", path="src/a.py", what="changed", kind="file", lines_added=8, lines_removed=2, text="x"),
        FileDiff(root="main", path=".envrc", what="added", kind="file", lines_added=1, lines_removed=0, text="x",
                 may_run_later=True),
        FileDiff(root="main", path="data/logo.png", what="changed", kind="file", size_before=900, size_after=14_000),
        FileDiff(root="main", path="run.sh", what="changed", kind="file", lines_added=0, lines_removed=0, text=""),
        FileDiff(root="main", path="pipe", what="left out", kind="fifo"),
    ]  # fmt: skip


VIEWS: dict[str, Callable[[Style], list[Line]]] = {
    "list": lambda style: list_lines(listing(), now=NOW, style=style, here=HERE),
    "show": lambda style: show_lines(shown_session(), now=NOW, style=style),
    "show-failed": lambda style: show_lines(failed_session(), now=NOW, style=style),
    "tail": lambda style: [line for row in lately() for line in step_lines(row, style, seq_width=4)],
    "plan": lambda style: plan_view.lines_of(plan(directory="/src/cli", orphans=[4713]), now=NOW, style=style),
    "plan-refused": lambda style: plan_view.lines_of(blocked_plan(), now=NOW, style=style),
    "plan-files": lambda style: plan_view.lines_of(
        plan(files=files_state(differ=differing()), in_doubt=[], told=None, directory="/src/cli"),
        now=NOW,
        style=style,
    ),
    "plan-missing": lambda style: plan_view.lines_of(missing_plan(), now=NOW, style=style),
    "checkpoint-files": lambda style: facts(checkpoint_facts(files_state(differ=differing())), style),
    "left-out": lambda style: left_out_lines(changed_files(), style),
    "diff-stat": lambda style: stat_lines(file_diffs(), style),
    "rewind": lambda style: rewind_lines(preview(), style),
    "rewind-conversation": lambda style: rewind_lines(conversation_preview(), style),
    "doctor": lambda style: doctor_lines(findings(), style),
    "error-ambiguous": lambda style: error_lines(Ambiguous("fix", ["fix-login", "fix-logout"]), style),
    "error-lease": lambda style: error_lines(
        LeaseHeld("refactor-db", owner="pid 5120 on box", until="05:48:26 UTC (in 26 s)", epoch=2), style
    ),
    "error-scope": lambda style: error_lines(ScopeRequired("fix-login@206"), style),
    "error-corrupt": lambda style: error_lines(
        Corrupt("the step's digest is wrong", session="fix-login", seq=215, offered="fix-login@214"), style
    ),
}


def drawn(name: str, style: Style) -> list[str]:
    return [rendered(line, style) for line in VIEWS[name](style)]


def picture(name: str) -> str:
    parts = []
    for width in WIDTHS:
        lines = drawn(name, Style(width=width, terminal=True))
        parts += [f"{'=' * 8} {name} at {width}", *lines, ""]
    return "\n".join(parts) + "\n"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("name", VIEWS)
def test_it_looks_as_in_its_picture(name: str) -> None:
    assert picture(name) == (PICTURES / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120])
@pytest.mark.parametrize("name", VIEWS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    wide = [line for line in drawn(name, Style(width=width, terminal=True)) if cells(line) > width]
    assert wide == []


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_id_beside_a_name_in_another_script_is_never_cut_off(width: int) -> None:
    lines = drawn("list", Style(width=width, terminal=True))
    assert [line for line in lines if "e4b896 世界" in line], "\n".join(lines)


@pytest.mark.parametrize("name", VIEWS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    plain = drawn(name, Style(width=80, terminal=True))
    colored = drawn(name, Style(width=80, terminal=True, color=True))
    assert [re.sub(r"\x1b\[[0-9]+m", "", line).rstrip() for line in colored] == plain
    assert set(re.findall(r"\x1b\[([0-9]+)m", "".join(colored))) <= {"0", "1", "2", "31", "32", "33", "35", "36"}


@pytest.mark.parametrize("name", VIEWS)
def test_without_utf8_our_own_words_are_ascii(name: str) -> None:
    lines = drawn(name, Style(width=80, terminal=True, unicode=False))
    assert "".join(lines).replace("世界-的-会话", "").replace("世界", "").isascii()


def test_a_row_keeps_its_place_whatever_its_status() -> None:
    order = [info.name for info in sessions()]
    for status in ("working", "waiting", "failed", "completed", "terminated"):
        infos = [msgspec.structs.replace(info, status=status) for info in sessions()]
        lines = list_lines(
            listing()._replace(sessions=infos), now=NOW, style=Style(width=120, terminal=True), here=HERE
        )
        text = "\n".join(rendered(line, Style(width=120)) for line in lines[3:])
        locations = [text.index(name) for name in order if name]
        assert locations == sorted(locations)


def write_pictures() -> None:
    """Keep what is drawn now; look at the difference before committing it."""
    import os
    import time

    os.environ["TZ"] = "UTC"
    time.tzset()
    PICTURES.mkdir(exist_ok=True)
    for name in VIEWS:
        (PICTURES / f"{name}.txt").write_text(picture(name), encoding="utf-8")


if __name__ == "__main__":
    write_pictures()
