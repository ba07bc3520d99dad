"""`relight serve` as people and programs use it: real processes, a real agent program, real kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import relight
from relight.values.options import RunOptions
from tests.support.figures import Figure
from tests.support.server_process import Place, Server, reaches
from tests.support.shell import Shell, environment, eventually

pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Server]]:
    location = Place(tmp_path_factory.mktemp("serve"))
    server = location.serve()
    yield location, server
    location.close(server)


@pytest.fixture
def location(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_session_is_begun_stopped_resumed_and_ends_by_http(shared: tuple[Place, Server]) -> None:
    location, server = shared
    status, begun = location.begin(server, "job")
    assert status == 201, begun
    assert begun["session"]["name"] == "job" and begun["session"]["labels"] == {"team": "web"}
    reaches(server, "job", "working")
    assert server.call("POST", "/api/sessions/job/resume", {})[1]["code"] == "RL-4001"
    assert server.call("POST", "/api/agent/runs/resume", {"checkpointId": "job", "prompt": "x"})[0] == 409
    status, stopped = server.call("POST", "/api/sessions/job/stop", {"why": "lunch"})
    assert status == 200 and stopped["supervised"], stopped
    seq = reaches(server, "job", "terminated")["head"]
    status, resumed = server.call("POST", "/api/sessions/job/resume", {}, Idempotency_Key="once")
    assert status == 201 and resumed["resumed_from"] == seq, resumed
    again = server.call("POST", "/api/sessions/job/resume", {}, Idempotency_Key="once")
    assert again[0] == 201 and again[1]["pid"] == resumed["pid"]
    location.may_end("job")
    assert reaches(server, "job", "completed")["attempt"] == 2
    listed = json.loads(server.shell.run("list", "--json").stdout)
    assert [one["status"] for one in listed if one["name"] == "job"] == ["completed"]


def test_of_several_who_resume_at_once_one_does_and_the_others_are_told_who(shared: tuple[Place, Server]) -> None:
    location, server = shared
    location.begin(server, "wanted")
    reaches(server, "wanted", "working")
    server.call("POST", "/api/sessions/wanted/stop", {})
    reaches(server, "wanted", "terminated")
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: server.call("POST", "/api/sessions/wanted/resume", {}), range(3)))
    refused = [problem for status, problem in answers if status != 201]
    assert len(refused) == 2 and {one["status"] for one in refused} == {409}, answers
    (pid,) = [begun["pid"] for status, begun in answers if status == 201]
    with relight.open(location.shell.store) as rl:
        attempts = [one.started for one in rl.history.events("wanted") if one.started and one.started["number"] == 2]
        assert attempts[0]["owner"].startswith(f"pid {pid} "), "then its program takes over, within the same attempt"
    location.may_end("wanted")
    assert reaches(server, "wanted", "completed")["attempt"] == 2


def test_a_run_is_resumed_as_other_systems_ask_for_it(shared: tuple[Place, Server]) -> None:
    location, server = shared
    path = "/api/agent/runs/resume"
    wrong = [({}, "checkpointId, prompt"), ({"checkpointId": "x"}, "prompt"), ({"prompt": "x"}, "checkpointId")]
    for body, missing in wrong:
        status, problem = server.call("POST", path, body)
        assert status == 400 and problem["detail"] == f"missing: {missing}"
    assert server.call("POST", path, {"checkpointId": "nobody@3", "prompt": "x"})[0] == 404
    status, problem = server.call("POST", "/api/sessions/nobody/deny", {"reason": "not today"})  # it is `why`
    assert (status, problem["detail"]) == (400, "reason: no such field")
    assert server.call("POST", path, {"checkpointId": "x@1", "prompt": "x\0y"})[0] == 400
    location.may_end("run")
    location.begin(server, "run")
    reaches(server, "run", "completed")
    status, made = server.call("POST", path, {"checkpointId": "run@2", "prompt": "another way"})
    assert status == 201 and made["session"]["parent"].endswith("@2") and made["checkpointId"] == "run@2", made
    assert made["resumed_from"] == 2 and made["checkpoint"] == made["session"]["parent"] and made["prompt_sent"], made
    assert made["attempt"] == 1 and made["command"][-1] == "agent.py" and made["in_doubt"] == [], made
    location.may_end(made["session"]["id"])


def test_a_failed_start_leaves_everything_as_it_was_and_says_why(location: Place) -> None:
    """The supervisor dies before it owns the session, whatever it is started for."""
    server = location.serve(RELIGHT_FAULT="resume.planned:1:kill")
    with relight.open(location.shell.store) as rl:
        words = [sys.executable, "agent.py"]
        made = rl.runs.create(words, RunOptions(directory=str(location.shell.directory), agent="python", name="job"))
        rl.runs.send(made.id, "first")
        rl.runs.send(made.id, "second")
        before = rl.sessions.get(made.id)
        for ref in ("job", "job@1"):
            status, problem = server.call("POST", f"/api/sessions/{ref}/resume", {})
            assert status == 409 and problem["code"] == "RL-3001" and problem["hints"], problem
        status, problem = location.begin(server, "other")
        assert status == 409 and problem["code"] == "RL-3001"
        assert [one.id for one in rl.sessions.list()] == [made.id]  # no fork, no new session
        after = rl.sessions.get(made.id)
        assert (after.status, after.seq, after.attempt) == (before.status, before.seq, before.attempt)
    os.rename(location.shell.directory, location.shell.directory.with_name("away"))
    status, problem = server.call("POST", "/api/sessions/job/resume", {"prompt": "go"})
    assert status in (400, 409) and problem["detail"], problem
    actions = server.call("GET", "/api/actions")[1]["items"]
    assert {one["outcome"] for one in actions[1:]} == {"refused: RL-3001"}
    server.close()
    gone = Shell(location.shell.store, location.stops).run("serve", "--link")
    assert gone.returncode == 3 and "start one: relight serve" in gone.stderr  # no link to nobody


@pytest.mark.guarantee("G12")
def test_a_server_killed_in_the_middle_of_a_resume_strands_nothing(
    location: Place, sample: Callable[..., int], figure: Figure
) -> None:
    server = location.serve()
    location.begin(server, "job")
    reaches(server, "job", "working")
    server.call("POST", "/api/sessions/job/stop", {})
    kills, seen = sample(2, proof=20), set()
    for number in range(kills):
        asking = subprocess.Popen([sys.executable, "-c", _ASK, server.base, server.token], stderr=subprocess.DEVNULL)
        time.sleep(0.15 + 1.2 * number / kills)  # the moment of the kill, not a wait for something
        server.kill()
        asking.wait(30)
        server.start()
        info = server.call("GET", "/api/sessions/job")[1]
        seen.add(info["status"])
        assert info["status"] in ("working", "spawning", "queued", "terminated")
        assert info["status"] != "terminated" or info["reason"], info
        if info["status"] != "terminated":
            eventually(lambda: server.call("POST", "/api/sessions/job/stop", {})[0] == 200, what="it stopping")
    location.may_end("job")
    status, resumed = server.call("POST", "/api/sessions/job/resume", {})
    assert status == 201, resumed
    reaches(server, "job", "completed")
    figure("G12", f"{kills} servers killed in the middle of a resume: it was {', '.join(sorted(seen))}, and ended")
    location.close(server)


_ASK = """
import sys, urllib.request
base, token = sys.argv[1:]
asked = urllib.request.Request(base + "/api/sessions/job/resume", data=b"{}", method="POST")
asked.add_header("Authorization", "Bearer " + token)
asked.add_header("Content-Type", "application/json")
urllib.request.urlopen(asked, timeout=60).read()
"""


def test_the_link_and_the_token_verbs(shared: tuple[Place, Server]) -> None:
    _, server = shared
    shell, own = server.shell, server.token
    new = shell.run("serve", "--link").stdout.strip()
    assert new.startswith(server.base + "/login?code=") and new != server.link
    added = shell.run("token", "add", "ci", "--scope", "operate")
    token = added.stdout.strip()
    assert added.returncode == 0 and token.startswith("rl_") and "not shown again" in added.stderr
    server.token = token
    assert server.call("GET", "/api/sessions")[0] == 200 and server.call("GET", "/api/tokens")[0] == 403
    server.token = own
    listed = shell.json("token", "list")
    assert [(one["name"], one["scope"]) for one in listed] == [("ci", "operate")] and token not in str(listed)
    assert shell.run("token", "revoke", "ci").returncode == 0
    server.token = token
    assert server.call("GET", "/api/sessions")[0] == 401
    server.token = own
    assert shell.run("token", "revoke", "ci").returncode == 3
    assert shell.run("token", "add").returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "TLS is required"),
        (("--cert", __file__), "--cert and --key must be given together"),
        (("--host", "no.such.host.invalid", "--insecure-host"), "cannot listen there"),
    ],
)
def test_it_does_not_open_what_it_was_not_told_to(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = Shell(tmp_path / "p.db", tmp_path).run("serve", *words)
    assert done.returncode in (2, 4) and said in done.stderr, done.stderr


def test_without_the_extra_the_command_that_installs_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "fastapi.py").write_text("raise ModuleNotFoundError('no fastapi', name='fastapi')\n")
    shell = Shell(tmp_path / "p.db", tmp_path)
    done = shell.run("serve", PYTHONPATH=f"{tmp_path}{os.pathsep}{environment(shell.store)['PYTHONPATH']}")
    assert done.returncode == 2 and "pip install 'relight[server]'" in done.stderr, done.stderr


def test_the_number_of_streams_is_not_bounded_by_what_a_shell_lets_a_program_open() -> None:
    code = (
        "import resource as r; from relight.cli.maintenance.serve import raise_open_files as up;"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (64, hard));"
        "assert up(32) == 64; assert up(128) == 128; r.setrlimit(r.RLIMIT_NOFILE, (64, 100)); assert up(128) == 100"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30, env=environment("memory:"))
