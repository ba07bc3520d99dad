"""Limits of money, tokens and time: for every kind of program, over all attempts, before the next model call."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import LimitReached, UsageError
from relight.journal.limits import Account, Reached, known_us, overtime, spent, worked_since
from relight.values.lease import Instant, Lease, Owner
from relight.values.policy import RunPolicy
from relight.values.session import Head
from relight.values.step import AttemptStart, Claim, Draft
from relight.values.usage import Usage
from tests.support.shell import Shell, eventually

PYTHON = sys.executable
HALTED = 6
LOOP = """
import relight, sys
from pathlib import Path

@relight.tool
def note(n: int) -> str:
    with Path("ran").open("a") as file:
        file.write("x")
    return "noted"

def model(messages):
    with Path("asked").open("a") as file:
        file.write("x")
    turn = sum(message["role"] == "assistant" for message in messages)
    call = {"id": f"c{turn}", "type": "function", "function": {"name": "note", "arguments": f'{{"n": {turn}}}'}}
    return relight.Reply({"role": "assistant", "tool_calls": [call]}, USAGE)

with relight.open() as rl, rl.session("any", **OPTIONS) as s:
    s.run(model, tools=[note], prompt="go on")
"""
OWN = """
import relight
from pathlib import Path

with relight.open() as rl, rl.session("any") as s:
    for turn in range(8):
        with Path("asked").open("a") as file:
            file.write("x")
        s.append({"role": "assistant", "content": str(turn)}, usage={"cost": 1.0})
    s.complete("all eight")
"""


ASKING = """
import relight
from pathlib import Path

@relight.tool
def note() -> str:
    with Path("ran").open("a") as file:
        file.write("x")
    return "noted"

with relight.open() as rl, rl.session("any") as s:
    if not s.messages:
        call = {"id": "c1", "type": "function", "function": {"name": "note", "arguments": "{}"}}
        s.append({"role": "assistant", "tool_calls": [call]}, usage={"cost": 2.0})
    for call in s.pending_calls():
        s.run_tool(call, [note])
    s.append({"role": "assistant", "content": "done"}, usage={"cost": 1.0})
    s.complete("done")
"""


def program(shell: Shell, text: str, *, usage: str = '{"input_tokens": 100, "cost": 1.0}', options: str = "{}") -> str:
    path = shell.directory / "limited.py"
    path.write_text(text.replace("USAGE", usage).replace("OPTIONS", options))
    return path.name


def asked(shell: Shell) -> int:
    """Model calls that were made."""
    path = shell.directory / "asked"
    return len(path.read_text()) if path.exists() else 0


def shown(shell: Shell, ref: str = "job") -> Any:
    return shell.json("show", ref)


# -- money and tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--budget", "2"), "budget reached: $2.00 of $2.00"),
        (("--budget-tokens", "150"), "token budget reached: 200 of 150 tokens"),
    ],
    ids=["money", "tokens"],
)
def test_a_program_with_the_loop_is_halted_before_the_first_model_call_beyond_its_budget(
    shell: Shell, flags: tuple[str, ...], why: str
) -> None:
    done = shell.run("run", "--name", "job", *flags, "--", PYTHON, program(shell, LOOP))
    info = shown(shell)
    assert (info["status"], info["reason"], asked(shell)) == ("halted", why, 2)
    assert info["failure"]["class"] == "limit"
    assert done.returncode == HALTED
    assert f"allow more: relight resume job {flags[0]} N" in done.stderr
    assert (shell.directory / "ran").read_text() == "xx", "the tools of the last reply that was paid for"


def test_a_program_with_a_loop_of_its_own_is_halted_with_the_reply_that_reaches_the_budget(shell: Shell) -> None:
    done = shell.run("run", "--name", "job", "--budget", "2", "--", PYTHON, program(shell, OWN))
    info = shown(shell)
    assert (info["status"], info["reason"], asked(shell)) == ("halted", "budget reached: $2.00 of $2.00", 2)
    assert (info["cost"], info["head"]) == (2.0, info["seq"]), "the reply that was paid for is kept"
    assert done.returncode == HALTED
    assert "LimitReached" in done.stderr


def test_a_halted_session_needs_a_higher_limit_and_counts_what_was_spent_before(shell: Shell) -> None:
    shell.run("run", "--name", "job", "--budget", "2", "--", PYTHON, program(shell, LOOP))
    before = shown(shell)
    refused = shell.run("resume", "job", "--yes")
    assert refused.returncode == 4
    assert "budget reached: $2.00 of $2.00" in refused.stderr
    assert "--budget N" in refused.stderr
    assert shown(shell) == before
    assert shell.run("resume", "job", "--budget", "3", "--yes").returncode == HALTED
    assert (shown(shell)["cost"], asked(shell)) == (3.0, 3)


def test_the_plan_of_a_session_halted_within_a_tool_call_agrees_with_its_resume(shell: Shell) -> None:
    (shell.directory / "asking.py").write_text(ASKING)
    assert shell.run("run", "--name", "job", "--budget", "2", "--", PYTHON, "asking.py").returncode == HALTED
    plan = shell.run("can-resume", "job")
    assert plan.returncode == 4
    assert "budget reached: $2.00 of $2.00" in plan.stdout and "relight resume job --budget N" in plan.stdout
    assert shell.run("resume", "job", "--yes").returncode == 4
    assert shell.run("resume", "job", "--dry-run").returncode == 4
    higher = shell.run("resume", "job", "--dry-run", "--budget", "9")
    assert higher.returncode == 0 and "✗" not in higher.stdout, higher.stdout
    assert shell.run("resume", "job", "--yes", "--budget", "9").returncode == 0
    assert (shown(shell)["status"], shown(shell)["cost"]) == ("completed", 3.0)
    assert (shell.directory / "ran").read_text() == "x", "the call that was open ran when it went on"


@pytest.mark.parametrize(
    "command",
    [["sleep", "8"], [PYTHON, "-c", "print('no library')"], ["sh", "-c", "exit 0"]],
    ids=["sleep", "python", "shell"],
)
@pytest.mark.parametrize("flag", ["--budget", "--budget-tokens"])
def test_a_limit_that_cannot_be_held_is_refused_at_the_start(shell: Shell, flag: str, command: list[str]) -> None:
    done = shell.run("run", "--name", "job", flag, "1", "--", *command)
    assert done.returncode == 2
    assert "--time-limit" in done.stderr
    assert shell.json("list") == []


def test_a_declared_library_program_that_never_opens_its_session_is_told_as_uncounted(shell: Shell) -> None:
    done = shell.run("run", "--name", "job", "--budget", "1", "--library", "--", "true")
    assert done.returncode == 0
    assert shown(shell)["reason"] == "usage unknown: it never opened its session"


@pytest.mark.parametrize(
    ("usage", "why"),
    [("None", "a reply came without its usage"), ('{"input_tokens": 5}', "the model is not known")],
    ids=["no usage", "no model"],
)
def test_a_reply_that_cannot_be_counted_halts_a_session_with_a_budget(shell: Shell, usage: str, why: str) -> None:
    name = program(shell, LOOP, usage=usage)
    assert shell.run("run", "--name", "job", "--budget", "1", "--", PYTHON, name).returncode == HALTED
    info = shown(shell)
    assert info["status"] == "halted" and why in info["reason"]
    assert asked(shell) == 1


def test_tokens_are_priced_by_the_table_and_by_a_file_of_ones_own(tmp_path: Path, monkeypatch: Any) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[models."mine"]\ninput = 1.0\noutput = 2.0\n')
    monkeypatch.setenv("RELIGHT_PRICES", str(own))
    usage = {"input_tokens": 1_000_000, "output_tokens": 500_000}
    with relight.open("memory:") as rl:
        for model, cost in (("claude-opus-5-5-20260901", 14.0), ("mine", 2.0), ("nobody-knows", None)):
            with rl.session(model, model=model) as s:
                s.append({"role": "assistant", "content": "hello"}, usage=usage)
                assert s.usage.cost == cost
                s.complete()


def test_without_a_supervisor_the_library_holds_its_limits_itself() -> None:
    calls = 0

    def model(messages: list[dict[str, Any]]) -> relight.Reply:
        nonlocal calls
        calls += 1
        call = {"id": f"c{calls}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        return relight.Reply({"role": "assistant", "tool_calls": [call]}, {"cost": 0.4})

    @relight.tool(effect="pure")
    def look() -> str:
        return str(calls)

    with relight.open("memory:") as rl:
        for budget, expected in ((1.0, 3), (None, 3), (2.0, 5)):
            with rl.session("lib", budget=budget) as s:
                s.run(model, tools=[look], prompt="go")
            assert (rl.sessions.get("lib").status, calls) == ("halted", expected)
        with rl.session("own", budget_tokens=10) as own:
            own.append({"role": "user", "content": "hello"})
            with pytest.raises(LimitReached, match="token budget reached"):
                own.append({"role": "assistant", "content": "hi"}, usage={"input_tokens": 10})
        assert rl.sessions.get("own").status == "halted"
        assert len(rl.history.load("own").messages) == 2
    with relight.open("memory:") as rl, pytest.raises(UsageError):
        rl.session("none", budget=0)


# -- time ---------------------------------------------------------------------------------------------------------


def test_a_plain_command_is_halted_at_its_time_limit(shell: Shell) -> None:
    done = shell.run("run", "--name", "job", "--time-limit", "1", "--", "sleep", "600")
    info = shown(shell)
    assert (info["status"], done.returncode) == ("halted", HALTED)
    assert "time limit reached" in info["reason"]
    assert shell.run("resume", "job", "--yes").returncode == 4


def test_a_library_program_is_halted_at_its_time_limit_and_needs_more_to_go_on(shell: Shell) -> None:
    (shell.directory / "slow.py").write_text(
        "import relight, time\n"
        "with relight.open() as rl, rl.session('any') as s:\n"
        "    s.append({'role': 'user', 'content': 'hello'})\n"
        "    time.sleep(60)\n"
    )
    assert shell.run("run", "--name", "job", "--time-limit", "2", "--", PYTHON, "slow.py").returncode == HALTED
    assert shown(shell)["status"] == "halted" and shown(shell)["worked_seconds"] >= 2
    assert shell.run("resume", "job", "--yes").returncode == 4


@pytest.mark.crash
def test_time_counts_over_all_attempts_also_after_a_kill(shell: Shell) -> None:
    words = ["run", "--name", "job", "--time-limit", "3", "--", "sleep", "60"]
    child = shell.start(*words)
    eventually(lambda: _worked(shell) >= 2.0, what="two seconds of work that are known")
    child.kill()
    child.communicate()
    before = _worked(shell)
    assert shell.run("resume", "job", "--yes").returncode == HALTED
    info = shown(shell)
    assert info["status"] == "halted"
    assert info["worked_seconds"] - before < 3, "the second attempt got the whole time again"


@pytest.mark.crash
def test_what_passes_after_a_kill_is_no_work_and_a_resume_has_the_rest_of_its_time(shell: Shell) -> None:
    child = shell.start("run", "--name", "job", "--time-limit", "1", "--", "sleep", "600")
    eventually(lambda: relight_began(shell), what="its first step")
    child.kill()
    child.communicate()
    time.sleep(1.2)  # longer than its whole limit, and nobody worked
    done = shell.run("resume", "job", "--yes")
    assert done.returncode == HALTED, done.stderr
    assert (shown(shell)["status"], shown(shell)["attempt"]) == ("halted", 2)


def relight_began(shell: Shell) -> bool:
    """Has it a step?"""
    if not shell.store.exists():
        return False
    with relight.open(shell.store, create=False) as rl:
        found = rl.sessions.find("job")
        return found is not None and found.seq > 0


def _worked(shell: Shell) -> float:
    """What a later attempt would know that the first one worked."""
    with relight.open(shell.store, create=False) as rl:
        record = rl._context.store.find_named("job")
        head = record.head if record is not None else None
        if head is None or head.lease is None:
            return 0.0
        renewed = (head.lease.deadline.us - head.lease.seconds * 1e6 - rl._context.store.instant().us) / 1e6
        return (rl._context.clock.now_us() - head.updated_us + head.worked_us) / 1e6 + renewed


def test_working_time_leaves_out_what_nobody_worked() -> None:
    now = Instant(timeline="boot", us=100_000_000)
    lease = Lease(owner=Owner(id="o"), deadline=Instant(timeline="boot", us=100_000_000), seconds=30.0)
    head = Head(session="s", status="working", attempt=1, updated_us=50_000_000, lease=lease)
    write = Draft(kind="mark", body=b"", key=b"")
    claim = Claim(owner=Owner(id="p"), seconds=30.0, expected_epoch=0)
    again = Draft(kind="attempt", body=b"", key=b"", claim=claim, attempt=AttemptStart(number=2))
    handed = Draft(kind="attempt", body=b"", key=b"", claim=claim, attempt=AttemptStart(number=1))
    waiting = Head(session="s", status="waiting", updated_us=50_000_000)
    assert worked_since(head, write, at_us=90_000_000, now=now) == 40_000_000
    assert worked_since(head, handed, at_us=90_000_000, now=now) == 40_000_000
    assert worked_since(head, again, at_us=90_000_000, now=now) == 10_000_000, "up to its last sign of life"
    assert worked_since(head, again, at_us=90_000_000, now=Instant(timeline="next", us=1)) == 0
    assert known_us(head, now_us=90_000_000, now=now) == 10_000_000, "what a plan says is what the claim will count"
    assert known_us(waiting, now_us=90_000_000, now=now) == 0
    limit = Reached(limit="time_limit", used=70.0, allowed=60.0, why="time limit reached")
    halts = Draft(kind="status", body=b"", key=b"", claim=claim, status=limit.change)
    assert worked_since(head, halts, at_us=90_000_000, now=now) == 70_000_000, "its supervisor saw it work"
    assert worked_since(waiting, write, at_us=90_000_000, now=now) == 0


@pytest.mark.parametrize(("cost", "reached"), [(None, False), (0.99, False), (sum([0.1] * 10), True), (1.5, True)])
def test_a_budget_is_reached_when_it_is_used_up(cost: float | None, reached: bool) -> None:
    found = spent([Account(policy=RunPolicy(budget=1.0), own=Usage(input_tokens=5, cost=cost))])
    assert isinstance(found, Reached) is reached


@pytest.mark.parametrize(("worked", "shown"), [(0.34, "0.34"), (1.04, "1"), (9.96, "10"), (70.4, "70")])
def test_the_time_that_was_worked_is_named_so_that_it_reaches_the_limit(worked: float, shown: str) -> None:
    """Half a second is not shown as none."""
    head = Head(session="a", worked_us=round(worked * 1e6))
    reached = overtime(RunPolicy(seconds=0.3), head, now_us=0)
    assert reached is not None and reached.why == f"time limit reached: worked {shown} s of 0.3 s"
