"""`relight run` keeps a program alive: deaths are survived, nothing is done twice, the end is told truly."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import relight
from tests.support.processes import alive
from tests.support.shell import Shell, eventually

PYTHON = sys.executable
FOREVER = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.1)"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def session(shell: Shell, ref: str = "python-shop") -> Any:
    return shell.json("show", ref)


def events(shell: Shell, ref: str = "python-shop") -> list[Any]:
    import json

    return [json.loads(line) for line in shell.run("tail", ref, "--after", "0", "--json").stdout.splitlines()]


# -- programs that use the library ----------------------------------------------------------------------------


@pytest.mark.crash
def test_a_program_that_dies_goes_on_by_itself_and_repeats_nothing(shell: Shell) -> None:
    done = shell.run("run", "--", PYTHON, "agent.py", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "All mails are out."
    mails = lines(shell.directory / "mails")
    assert len(mails) == len(set(mails))
    assert len(lines(shell.directory / "asked")) == 5
    info = session(shell)
    assert (info["status"], info["attempt"], info["cost"]) == ("completed", 4, pytest.approx(0.05))
    assert "died (signal 9); restarting in" in done.stderr
    assert "✓ python-shop completed" in done.stderr
    assert "3 restarts survived" in done.stderr
    assert shell.run("verify").returncode == 0


def test_an_undisturbed_run_is_one_attempt(shell: Shell) -> None:
    assert shell.run("run", "--name", "calm", "--", PYTHON, "agent.py").returncode == 0
    info = session(shell, "calm")
    assert (info["status"], info["attempt"], info["resumed_from"]) == ("completed", 1, 0)
    assert {event["attempt"] for event in events(shell, "calm")} == {1}


def test_its_own_verdict_stands(shell: Shell) -> None:
    program = (
        "import relight, sys\n"
        "with relight.open() as rl, rl.session('x') as s:\n"
        "    s.append({'role': 'user', 'content': 'hello'})\n"
        "    s.halt('enough')\n"
        "sys.exit(7)\n"
    )
    done = shell.run("run", "--", PYTHON, "-c", program)
    assert done.returncode == 7
    info = session(shell)
    assert (info["status"], info["reason"], info["attempt"]) == ("halted", "enough", 1)


def test_an_exception_is_a_verdict_and_not_tried_again(shell: Shell) -> None:
    program = "import relight\nwith relight.open() as rl, rl.session('x') as s: raise ValueError('no key')"
    done = shell.run("run", "--", PYTHON, "-c", program)
    assert done.returncode == 1
    info = session(shell)
    assert (info["status"], info["reason"], info["attempt"]) == ("failed", "ValueError: no key", 1)


def test_leaving_without_a_verdict_is_told_as_such(shell: Shell) -> None:
    program = (
        "import os, relight\ns = relight.open().session('x')\ns.append({'role': 'user', 'content': 'a'})\nos._exit(0)"
    )
    assert shell.run("run", "--", PYTHON, "-c", program).returncode == 0
    info = session(shell)
    assert (info["status"], info["attempt"]) == ("terminated", 1)
    assert "without a verdict" in info["reason"]


@pytest.mark.crash
def test_deaths_without_progress_are_counted_and_end_as_a_failure(shell: Shell) -> None:
    program = (
        "import os, sys, relight\n"
        "s = relight.open().session('x')\n"
        "print('cannot reach the \\x1b[31mprovider', file=sys.stderr, flush=True)\n"
        "os._exit(3)\n"
    )
    done = shell.run("run", "--retries", "2", "--", PYTHON, "-c", program)
    assert done.returncode == 3
    info = session(shell)
    assert (info["status"], info["attempt"]) == ("failed", 3)
    assert info["failure"]["class"] == "agent_exit"
    assert info["failure"]["fields"] == {"exit_code": 3}
    assert "cannot reach the \x1b[31mprovider" in info["failure"]["text"]
    assert len(info["failure"]["text"]) <= 4000
    assert info["reason"] == "died 3 times without progress: exit code 3"
    assert "cannot reach the \\x1b[31mprovider" in done.stderr.rpartition("✗ python-shop failed")[2]


@pytest.mark.crash
def test_a_step_of_its_own_resets_the_count(shell: Shell) -> None:
    done = shell.run("run", "--retries", "1", "--", PYTHON, "agent.py", "2")
    assert done.returncode == 0, done.stderr
    assert session(shell)["attempt"] == 3


def test_a_program_may_wait_and_go_on_with_the_answer(shell: Shell) -> None:
    (shell.directory / "ask.py").write_text(
        "import relight\n"
        "with relight.open() as rl, rl.session('x') as s:\n"
        "    print('answer:', s.ask('push to main?'))\n"
        "    s.complete()\n"
    )
    done = shell.run("run", "--name", "asker", "--", PYTHON, "ask.py")
    assert done.returncode == 0
    assert "asks: push to main?" in done.stderr
    assert session(shell, "asker")["status"] == "waiting"
    assert shell.run("send", "asker", "yes").returncode == 0
    resumed = shell.run("resume", "asker")
    assert resumed.stdout == "answer: yes\n"
    assert (session(shell, "asker")["status"], session(shell, "asker")["attempt"]) == ("completed", 2)


def test_a_question_with_a_time_is_waited_for_and_goes_on_with_its_default(shell: Shell) -> None:
    (shell.directory / "ask.py").write_text(
        "import relight\n"
        "with relight.open() as rl, rl.session('x') as s:\n"
        "    print('answer:', s.ask('push to main?', choices=['yes', 'no'], timeout=1, default='no'))\n"
        "    s.complete()\n"
    )
    done = shell.run("run", "--name", "asker", "--", PYTHON, "ask.py")
    assert (done.returncode, done.stdout) == (0, "answer: no\n"), done.stderr
    info = session(shell, "asker")
    assert (info["status"], info["attempt"]) == ("completed", 2)


def test_a_long_pause_ends_the_program_and_its_supervisor_starts_it_again(shell: Shell) -> None:
    (shell.directory / "naps.py").write_text(
        "import os, relight, relight.sessions.calls.timers as timers\n"
        "timers.LONG_SECONDS = 0.5\n"
        "with relight.open() as rl, rl.session('x') as s:\n"
        "    print('begins', flush=True)\n"
        "    s.sleep(1)\n"
        "    s.complete(s.attempt)\n"
    )
    done = shell.run("run", "--name", "naps", "--", PYTHON, "naps.py")
    assert (done.returncode, done.stdout) == (0, "begins\nbegins\n"), done.stderr
    assert "Traceback" not in done.stderr
    info = session(shell, "naps")
    assert (info["status"], info["attempt"]) == ("completed", 2)


# -- programs that do not -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "exit_code"), [("0", "completed", 0), ("3", "failed", 3)], ids=["ends well", "ends badly"]
)
def test_any_program_gets_its_verdict_from_its_exit(shell: Shell, code: str, status: str, exit_code: int) -> None:
    program = f"import sys; print('out'); print('what went wrong', file=sys.stderr); sys.exit({code})"
    done = shell.run("run", "--", PYTHON, "-c", program)
    assert (done.returncode, done.stdout) == (exit_code, "out\n")
    info = session(shell)
    assert (info["status"], info["attempt"], info["agent"], info["runtime"]) == (status, 1, "python", "process")
    if status == "failed":
        assert info["failure"]["fields"] == {"exit_code": 3}
        assert "what went wrong" in info["failure"]["text"]
        assert "hint: relight resume python-shop" in done.stderr


def test_a_signal_is_told_as_one(shell: Shell) -> None:
    done = shell.run("run", "--", PYTHON, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.returncode == 128 + signal.SIGSEGV
    assert session(shell)["failure"]["fields"] == {"signal": int(signal.SIGSEGV)}


@pytest.mark.crash
def test_a_plain_program_is_started_again_only_when_asked_to(shell: Shell) -> None:
    program = "open('lives', 'a').write('x\\n'); raise SystemExit(1)"
    assert shell.run("run", "--", PYTHON, "-c", program).returncode == 1
    assert len(lines(shell.directory / "lives")) == 1
    assert shell.run("run", "--retries", "2", "--", PYTHON, "-c", program).returncode == 1
    assert len(lines(shell.directory / "lives")) == 4


def test_the_command_is_passed_word_by_word_and_never_through_a_shell(shell: Shell) -> None:
    words = ["$HOME; touch owned", "`touch owned`", "--name", "a b", "*", "\n"]
    done = shell.run("run", "--", PYTHON, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words)
    import json

    assert json.loads(done.stdout) == words
    assert not (shell.directory / "owned").exists()
    assert shell.json("show", "python-shop", "--verbose")["command"][-6:] == words


def test_a_name_nobody_chose_can_be_typed_and_does_not_collide(shell: Shell) -> None:
    for _ in range(2):
        assert shell.run("run", "--", PYTHON, "-c", "").returncode == 0
    assert [one["name"] for one in shell.json("list")] == ["python-shop-2", "python-shop"]
    taken = shell.run("run", "--name", "python-shop", "--", PYTHON, "-c", "")
    assert taken.returncode == 4
    assert "relight resume python-shop" in taken.stderr


def test_a_program_that_does_not_exist_leaves_no_session(shell: Shell) -> None:
    assert shell.run("run", "--", "no-such-program").returncode == 2
    assert shell.json("list") == []


def test_a_program_that_cannot_be_started_is_a_failure(shell: Shell) -> None:
    program = shell.directory / "broken"
    program.write_bytes(b"\x7fELF, and then nothing that a machine could run")
    program.chmod(0o755)
    done = shell.run("run", "--", "./broken")
    assert done.returncode == 1
    assert "cannot start './broken'" in done.stderr
    assert shell.run("show", "broken-shop").returncode == 3, "a start that fails leaves no session"


def test_quiet_says_only_the_end_and_verbose_every_step(shell: Shell) -> None:
    quiet = shell.run("run", "-q", "--name", "q", "--", PYTHON, "agent.py")
    assert quiet.stderr.startswith("✓ q completed")
    loud = shell.run("run", "-v", "--name", "v", "--", PYTHON, "agent.py")
    assert loud.stderr.startswith("relight: session v ")
    assert loud.stderr.count("send_mail") >= 4
    assert '"All mails are out."' in loud.stderr


# -- being told to stop ---------------------------------------------------------------------------------------


def running(shell: Shell, *words: str, name: str = "going") -> Any:
    """A supervised program that runs for ever, and has begun."""
    process = shell.start("run", "--name", name, "--", *(words or (PYTHON, "-c", FOREVER)))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


LIBRARY_FOREVER = (
    "import time, relight\ns = relight.open().session('x')\ns.append({'role': 'user', 'content': 'hello'})\n" + FOREVER
)


@pytest.mark.parametrize("program", [FOREVER, LIBRARY_FOREVER], ids=["plain", "library"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_stop_reaches_the_program_and_is_told_as_one(shell: Shell, program: str, number: signal.Signals) -> None:
    process = running(shell, PYTHON, "-c", program)
    process.send_signal(number)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    info = session(shell, "going")
    assert (info["status"], info["attempt"]) == ("terminated", 1)
    assert f"stopped ({number.name})" in info["reason"]
    assert "relight resume going" in talk


def test_a_second_ctrl_c_kills(shell: Shell) -> None:
    # Not `print`: it may be interrupted by another signal, and is then called within itself.
    stubborn = "import os, signal\nsignal.signal(signal.SIGINT, lambda *a: os.write(1, b'no\\n'))\n" + FOREVER
    process = running(shell, PYTHON, "-c", stubborn)
    process.send_signal(signal.SIGINT)
    said = process.stdout.readline()
    if said != "no\n":  # it has ended: let it say why
        pytest.fail(f"{said!r}, then {process.communicate(timeout=60)}, exit code {process.wait(60)}")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL
    assert session(shell, "going")["status"] == "terminated"


def test_the_whole_group_dies_with_the_program(shell: Shell) -> None:
    program = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {FOREVER!r}], stdout=subprocess.DEVNULL)\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "print('ready', flush=True)\n"
        "child.wait()\n"
    )
    process = running(shell, PYTHON, "-c", program)
    grandchild = int((shell.directory / "pid").read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    eventually(lambda: not alive(grandchild), what="the end of the grandchild")


@pytest.mark.parametrize("program", [FOREVER, LIBRARY_FOREVER], ids=["plain", "library"])
def test_stop_asks_the_supervisor_so_that_nothing_starts_it_again(shell: Shell, program: str) -> None:
    process = running(shell, PYTHON, "-c", program)
    stopped = shell.json("stop", "going")
    assert (stopped["pid"], stopped["killed"]) == (process.pid, False)
    process.communicate(timeout=60)
    info = session(shell, "going")
    assert (info["status"], info["attempt"]) == ("terminated", 1)


def test_stop_ends_a_program_of_ones_own_loop_too(shell: Shell) -> None:
    import subprocess

    from tests.support.shell import environment

    process = subprocess.Popen(
        [PYTHON, "-c", LIBRARY_FOREVER.replace("'x'", "'own'")],
        env=environment(shell.store), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert shell.json("stop", "own")["supervised"] is False
    process.communicate(timeout=60)
    assert session(shell, "own")["status"] == "terminated"


# -- the supervisor's own death, and going on -----------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("program", [FOREVER, LIBRARY_FOREVER], ids=["plain", "library"])
def test_a_killed_supervisor_leaves_a_truthful_list_and_a_session_that_goes_on(shell: Shell, program: str) -> None:
    (shell.directory / "forever.py").write_text(program)
    process = running(shell, PYTHON, "forever.py")
    process.kill()
    process.communicate(timeout=60)
    eventually(lambda: session(shell, "going")["status"] == "terminated", what="the truth")
    assert "its process died" in session(shell, "going")["reason"]
    (shell.directory / "forever.py").write_text("print('went on')")
    done = shell.run("resume", "going")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "went on\n"
    info = session(shell, "going")
    assert (info["status"], info["attempt"]) == ("completed", 2)


@pytest.mark.crash
def test_what_a_dead_attempt_left_running_is_ended_before_the_next(shell: Shell) -> None:
    program = (
        "import os, subprocess, sys\n"
        "if not os.path.exists('pid'):\n"
        f"    child = subprocess.Popen([sys.executable, '-c', {FOREVER!r}], start_new_session=True,"
        " stdout=subprocess.DEVNULL)\n"
        "    open('pid', 'w').write(str(child.pid))\n"
        "    print('ready', flush=True)\n"
        "    child.wait()\n"
        "print('went on')\n"
    )
    (shell.directory / "leaves.py").write_text(program)
    process = running(shell, PYTHON, "leaves.py")
    left = int((shell.directory / "pid").read_text())
    process.kill()
    process.communicate(timeout=60)
    eventually(lambda: session(shell, "going")["status"] == "terminated", what="the truth")
    assert alive(left)
    assert f"(pid {left})" in shell.screen("can-resume", "going").text
    done = shell.run("resume", "going")
    assert done.stdout == "went on\n"
    assert f"ended 1 process of the dead attempt (pid {left})" in done.stderr
    assert not alive(left)


def test_a_running_session_is_not_resumed_twice(shell: Shell) -> None:
    process = running(shell)
    refused = shell.run("resume", "going")
    assert refused.returncode == 4
    assert "(RL-4001)" in refused.stderr
    assert f"pid {process.pid} on" in refused.stderr
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_a_completed_session_goes_on_only_with_a_new_prompt(shell: Shell) -> None:
    (shell.directory / "chat.py").write_text(
        "import relight\n"
        "with relight.open() as rl, rl.session('x') as s:\n"
        "    if s.is_new: s.append({'role': 'user', 'content': 'first'})\n"
        "    s.append({'role': 'assistant', 'content': 're: ' + s.messages[-1]['content']})\n"
        "    print(s.messages[-1]['content'])\n"
        "    s.complete()\n"
    )
    assert shell.run("run", "--name", "chat", "--", PYTHON, "chat.py").stdout == "re: first\n"
    refused = shell.run("resume", "chat")
    assert refused.returncode == 4
    assert "new prompt" in refused.stderr
    assert shell.run("resume", "chat", "second").stdout == "re: second\n"
    head = session(shell, "chat")["seq"]
    forked = shell.run("resume", "chat@3", "third")
    assert forked.stdout == "re: third\n"
    assert session(shell, "chat")["seq"] == head
    assert len(shell.json("list")) == 2


def test_the_plan_comes_first_and_a_dry_run_ends_there(shell: Shell) -> None:
    shell.run("run", "--name", "bad", "--", PYTHON, "-c", "raise SystemExit(1)")
    before = session(shell, "bad")["seq"]
    plan = shell.screen("resume", "bad", "--dry-run", NO_COLOR="1").text
    assert plan.startswith("bad @")
    assert "conversation" in plan
    assert "command" in plan
    assert session(shell, "bad")["seq"] == before
    acted = shell.run("resume", "bad")
    assert acted.stderr.startswith("bad @")
    assert acted.returncode == 1


@pytest.mark.crash
def test_a_doubt_is_asked_about_on_a_terminal_and_told_to_the_model(shell: Shell) -> None:
    shell.run("run", "--name", "mailer", "--retries", "0", "--", PYTHON, "agent.py", "1")
    assert session(shell, "mailer")["status"] == "failed"
    before = session(shell, "mailer")["seq"]
    asked = shell.screen("resume", "mailer", keys=b"\n")
    assert "1 in doubt: send_mail (once)" in asked.text
    assert "outcome unknown" in asked.text
    assert session(shell, "mailer")["seq"] == before
    done = shell.run("resume", "mailer", "--yes")
    assert done.returncode == 0
    mails = lines(shell.directory / "mails")
    assert len(mails) == len(set(mails)) == 4


def test_detached_it_runs_without_us(shell: Shell) -> None:
    done = shell.run("run", "--detach", "--name", "far", "--", PYTHON, "-c", FOREVER)
    assert done.returncode == 0, done.stderr
    assert session(shell, "far")["status"] in ("spawning", "working")
    assert shell.run("stop", "far").returncode == 0
    assert session(shell, "far")["status"] == "terminated"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_reboot_all_comes_back_that_was_running_and_nothing_that_was_stopped(
    shell: Shell, number: signal.Signals
) -> None:
    pids = {}
    for name in ("far", "stopped"):
        done = shell.run("run", "--detach", "--name", name, "--", PYTHON, "-c", FOREVER)
        assert done.returncode == 0, done.stderr
        pids[name] = int(done.stdout.split("\t")[2])
    assert shell.run("stop", "stopped").returncode == 0
    os.kill(pids["far"], number)
    eventually(lambda: session(shell, "far")["status"] == "terminated")
    assert shell.run("resume", "--all", "--yes").returncode == 0
    assert session(shell, "far")["status"] in ("spawning", "working")
    assert session(shell, "stopped")["status"] == "terminated"
    assert shell.run("stop", "far").returncode == 0


def test_all_are_resumed_but_those_that_refuse_and_each_refusal_is_told(shell: Shell) -> None:
    dies_once = "test -e $0.lived || { touch $0.lived; kill -9 $PPID; }"
    for name in ("first", "second", "third"):
        (shell.directory / name).mkdir()
        shell.run("run", "--name", name, "--workspace", name, "--", "sh", "-c", dies_once, name)
    (shell.directory / "second").rename(shell.directory / "elsewhere")
    done = shell.run("resume", "--all", "--yes")
    assert done.returncode == 4, done.stderr
    assert "✗ second" in done.stderr and "workspace missing" in done.stderr
    assert "1 of 3 sessions could not be resumed" in done.stderr
    both = ("first", "third")
    eventually(lambda: {session(shell, name)["status"] for name in both} == {"completed"}, what="the end of both")
    assert session(shell, "second")["status"] == "terminated"


# -- the terminal ---------------------------------------------------------------------------------------------


def test_a_program_that_wants_the_terminal_gets_it(shell: Shell) -> None:
    program = "import os, sys; print('you said', input('name? ')); print(os.isatty(0), os.isatty(1), os.isatty(2))"
    screen = shell.screen("run", "--name", "talk", "--", PYTHON, "-c", program, keys=b"bob\n", NO_COLOR="1")
    assert screen.code == 0, screen.text
    assert "you said bob" in screen.text
    assert "True True True" in screen.text
    assert "talk completed" in screen.text


def test_ctrl_c_on_a_terminal_asks_the_program_first(shell: Shell) -> None:
    program = (
        "import time\n"
        "try:\n"
        "    print('it began', flush=True)\n"
        "    while True: time.sleep(0.05)\n"
        "except KeyboardInterrupt:\n"
        "    print('saved what I had')\n"
    )
    screen = shell.screen("run", "--name", "ctrl", "--", PYTHON, "-c", program, keys=b"\x03", when="it began")
    assert "saved what I had" in screen.text
    assert "relight resume ctrl" in screen.text
    assert session(shell, "ctrl")["status"] == "terminated"


def test_plain_mode_redraws_nothing(shell: Shell) -> None:
    screen = shell.screen("run", "--name", "calm", "--", PYTHON, "agent.py", ACCESSIBLE="1")
    assert screen.text.startswith("plain mode (from ACCESSIBLE)")
    assert "\x1b" not in screen.text
    assert "\r" not in screen.text.replace("\r\n", "\n")


def test_the_store_is_shared_with_the_program_whatever_its_path(tmp_path: Path) -> None:
    directory = tmp_path / "a b % é"
    directory.mkdir()
    shell = Shell(directory / "s t#o?re%20.db", directory)
    program = "import relight\nwith relight.open() as rl, rl.session('x') as s: s.complete(rl.store.url)"
    assert shell.run("run", "--name", "odd", "--", PYTHON, "-c", program).returncode == 0
    with relight.open(shell.store) as rl:
        assert rl.history.load("odd").result == rl.store.url
