"""Approvals with the agents that cannot defer a call: held, ended, decided or expired, told; and closed where relight
cannot ask."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from relight.hooks import client
from relight.journal.effects.approvals import as_asked
from tests.support.agent_harness import SECONDS, TASK, UNKNOWN, AgentHarness, append, harness, lines
from tests.support.mounting import fill, small_disk
from tests.support.server_harness import ServerHarness
from tests.support.shell import eventually

pytestmark = [pytest.mark.agents]
DONE = {"text": "all done"}
KINDS = ("codex", "pi", "opencode", "gemini")
BESIDE = {
    "text": "writes both",
    "calls": [{"shell": "sleep 1; echo beside >> log.txt"}, {"shell": "echo two >> log.txt"}],
}


def dialog(s: AgentHarness, session: str) -> str:
    """What the page shows to who is to decide."""
    server = ServerHarness(s.store)
    try:
        return server.client().get(f"/sessions/{session}/do/approve").text
    finally:
        server.close()


@pytest.mark.crash
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_waits_is_decided_and_runs_once_and_nothing_beside_it_is_in_doubt(kind: str, tmp_path: Path) -> None:
    """Allowed after a kill of everything; the same input, asked for once more, asks again, and is denied."""
    with harness(kind, tmp_path, [BESIDE, append("two"), append("two"), DONE]) as s:
        child = s.begin("--approve", "Bash(*two*)")
        info = s.reaches("waiting")
        beside = lines(s.work)  # it may have begun before the other one asked; then it has ended
        assert beside in ([], ["beside"]) and not s.agents() and info.in_doubt == 0
        assert "echo two" in as_asked(info.question) and info.wake_at is not None
        shown = dialog(s, info.id)
        assert not [part for part in ("echo two", str(s.work.resolve()), "writes both") if part not in shown]
        s.strike("both", child)
        s.do("approve", "job")
        child = s.start("resume", "job", "--yes")
        eventually(lambda: lines(s.work) == [*beside, "two"], seconds=SECONDS, what="the allowed call")
        s.reaches("waiting")
        s.do("deny", "job", "--why", "not on a Friday")
        s.ends(child)
        assert lines(s.work) == [*beside, "two"], "one decision served two calls"
        assert s.info().status == "completed" and s.relight("approve", "job").returncode != 0
        s.remembers(TASK, "writes both", "writes two")
        told = s.results()
        [first] = [result for asked, result in told if "beside" in asked]
        two = [result for asked, result in told if "echo two" in asked]
        assert "a person has allowed it" in two[0] and "not on a Friday" in two[2], told
        assert UNKNOWN not in "\n".join(result for _, result in told) and ("not run" in first) == (not beside)
        assert not s.marked()


@pytest.mark.parametrize("kind", ("claude", *KINDS))
def test_a_question_that_nobody_answers_and_an_answer_that_is_not_used_end_as_denied(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("two"), DONE, append("two"), append("two"), DONE, DONE]) as s:
        s.run("--approve", "Bash(*two*)", "--approve-within", "2")
        assert s.info().status == "completed" and lines(s.work) == []
        assert "no one approved it in time" in s.reported("echo two")
        child = s.start("resume", "job", "again", "--yes")
        s.reaches("waiting")
        s.strike("both", child)
        eventually(lambda: s.relight("approve", "job").returncode != 0, seconds=SECONDS, what="its expiry")
        allowed = s.info().status == "queued"  # in time; then it is the permission that expires, before it is used
        if allowed:
            time.sleep(2.5)
        s.do("resume", "job", "--yes")
        assert lines(s.work) == [], "an old yes let a call run"
        assert "counts as denied" in s.results()[-1][1] and s.info().status == "completed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_differs_in_one_byte_from_the_allowed_one_asks_again(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("two"), append("twp"), DONE]) as s:
        child = s.begin("--approve", "Bash(*tw*)")
        s.reaches("waiting")
        s.do("approve", "job")

        def asks_again() -> bool:
            info = s.info()
            return info.status == "waiting" and "echo twp" in as_asked(info.question)

        eventually(asks_again, seconds=SECONDS, what="the question about the changed call")
        assert lines(s.work) == [], "a permission for another input let it run"
        s.do("deny", "job")
        s.ends(child)
        assert s.info().status == "completed" and lines(s.work) == []


LOST = {
    "environment": "[os.environ.pop(name) for name in list(os.environ) if name.startswith('RELIGHT_')]",
    "store": "os.environ.update(RELIGHT_HOOK_SOCKET='/dev/null/hook', RELIGHT_STORE='/dev/null/away/r.db')",
    "command": """
os.environ["GEMINI_CLI_RELIGHT_TOOL"] = "/nowhere" + os.environ["GEMINI_CLI_RELIGHT_TOOL"]
""",
    "redacted": "os.environ.update(GITHUB_SHA='0')",
    "program": """
import pathlib
[path] = pathlib.Path(os.environ["RELIGHT_HOOK_SOCKET"]).parent.glob("relight.mjs")
path.write_text(path.read_text().replace('BEFORE = ["', 'BEFORE = ["/nowhere'))
""",
    "extension": """
import pathlib
[path] = pathlib.Path(os.environ["RELIGHT_HOOK_SOCKET"]).parent.glob("relight.mjs")
path.unlink()
""",
}


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        ("codex", "environment"),
        ("codex", "store"),
        ("pi", "program"),
        ("opencode", "extension"),
        ("gemini", "store"),
        ("gemini", "command"),
        ("gemini", "redacted"),
    ],
)
def test_no_call_runs_where_its_hook_cannot_ask(kind: str, lost: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("two"), DONE]) as s:
        s.dress(LOST[lost])
        s.run("--approve", "Bash")
        assert s.info().status == "completed" and lines(s.work) == []


@pytest.mark.crash
@pytest.mark.parametrize("kind", KINDS)
def test_no_call_runs_if_the_supervisor_is_killed_while_its_hook_waits_for_a_reply(kind: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    with harness(kind, tmp_path, [{**append("two"), "until": str(broken)}, DONE, DONE]) as s:
        child = s.begin("--approve", "Bash")
        s.model.wait_for(1, SECONDS)
        child.send_signal(signal.SIGSTOP)
        broken.touch()
        eventually(lambda: [pid for pid in s.processes() if is_hook(pid)], seconds=SECONDS, what="its hook")
        s.strike("supervisor", child)
        eventually(lambda: not s.agents(), seconds=SECONDS, what="the end of the agent")
        stays_closed(s)


def stays_closed(s: AgentHarness) -> None:
    """Resumed, it asks again, or the model does something else; the call has not run, and nothing is in doubt."""
    s.start("resume", "job", "--yes")
    ended = ("waiting", "completed")
    eventually(lambda: s.info().attempt == 2 and s.info().status in ended, seconds=SECONDS, what="its resume")
    assert lines(s.work) == [] and s.info().in_doubt == 0


def is_hook(pid: int) -> bool:
    """Whether it is the hook command, which asks the supervisor."""
    return client.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_runs_on_a_full_disk(kind: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    asks = {**append("two"), "until": str(broken)}
    with small_disk(tmp_path / "store", "96m") as disk, harness(kind, tmp_path, [asks, DONE, DONE]) as s:
        child = s.begin("--approve", "Bash")
        s.model.wait_for(1, SECONDS)
        fill(disk)
        broken.touch()
        eventually(lambda: not s.agents(), seconds=SECONDS, what="the end of the agent")
        child.wait(SECONDS)
        assert lines(s.work) == []
        (disk / "filler").unlink()
        stays_closed(s)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("opencode", ["--pure"]),
        ("codex", ["--disable", "hooks"]),
        ("codex", ["-c", "hooks.PreToolUse=[]"]),
        ("gemini", ["--extensions", "none"]),
    ],
)
def test_flags_that_would_keep_the_hooks_out_are_refused_before_anything_is_started(
    kind: str, flags: list[str], tmp_path: Path
) -> None:
    with harness(kind, tmp_path, [append("two"), DONE]) as s:
        words = s.agent()
        done = s.relight("run", "--name", "job", "--approve", "Bash", "--", *words, *flags)
        assert done.returncode == 2 and "cannot be made to wait" in done.stderr
        assert s.find() is None and not s.model.requests()


def test_what_an_agent_can_do_is_said(tmp_path: Path) -> None:
    with harness("codex", tmp_path, [append("one"), DONE]) as s:
        s.run()
        cannot = s.json("can-resume", "job")["agent"]["cannot"]
        assert cannot == ["report calls of every tool before they run"], json.dumps(cannot)
