"""What a plan says of the files is what the resume, the fork or the rewind then does, at every entry point."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relight import aio
from relight.cli.app.group import run
from relight.errors import Conflict, NotResumable, RelightError, UsageError
from relight.library.facade import Relight
from relight.text.format import files_put, started_with
from relight.values.options import ResumeOptions, RunOptions
from relight.values.outcome import Resumed
from tests.support.server_harness import Answer, ServerHarness


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "w"
    made.mkdir()
    return made


@pytest.fixture
def harness(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerHarness]:
    """`job` wrote v1 at @2 and v2 at @3; its program writes down where it runs and what it reads."""
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "s" / "r.db"))
    made = ServerHarness(tmp_path / "s" / "r.db")
    command = ["sh", "-c", f'echo "$PWD $(cat file)" > {tmp_path}/seen']
    made.rl.runs.create(command, RunOptions(agent="sh", name="job", directory=str(root), workspace={"main": str(root)}))
    with made.rl.session("job") as s:
        for text in ("v1", "v2"):
            (root / "file").write_text(text)
            s.append({"role": "user", "content": text})
    yield made
    made.close()


@pytest.fixture
def rl(harness: ServerHarness) -> Relight:
    return harness.rl


def at(rl: Relight, text: str) -> int:
    return next(
        one.seq
        for one in rl.history.checkpoints("job")
        if rl.history.load(f"job@{one.seq}").messages[-1:] == [said(text)]
    )


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


WAYS: list[dict[str, Any]] = [{}, {"name": "try"}, {"in_place": True}, {"workspace": "given"}, {"workspace": "w"}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_resume_below_the_head_puts_files_where_its_plan_says(
    rl: Relight, root: Path, tmp_path: Path, way: dict[str, Any]
) -> None:
    """M5."""
    if "workspace" in way:
        way = {"workspace": str(tmp_path / way["workspace"])}
    seq = at(rl, "v1")
    plan = rl.runs.plan(f"job@{seq}", options=ResumeOptions(**way))
    assert plan.files_plan is not None
    if not plan.ok:
        (reason,) = [one.text for one in plan.reasons if one.blocks]
        with pytest.raises(Conflict) as refused:
            rl.runs.supervise(f"job@{seq}", ResumeOptions(**way))
        assert reason == refused.value.message == f"{root}: not empty; choose a new directory"
        assert (root / "file").read_text() == "v2"
        return
    supervision = rl.runs.supervise(f"job@{seq}", ResumeOptions(**way))
    supervision.run()
    outcome = supervision.outcome
    assert outcome is not None and outcome.put_back == plan.files_plan.at == seq
    if plan.files_plan.places:
        assert outcome.workspace == plan.files_plan.places and outcome.directory == plan.directory
        assert plan.directory is not None and plan.directory in started_with(plan)
    else:
        assert set(way) == set() and plan.directory is None
        assert outcome.workspace["main"].startswith(f"{root}-") and f"a new directory beside {root}" in files_put(plan)
    assert all(path in files_put(plan) for path in plan.files_plan.places.values())
    assert (tmp_path / "seen").read_text() == f"{outcome.directory} v1\n"
    is_put_back = "restored as of" in files_put(plan)
    assert is_put_back == ("in_place" in way) and is_put_back == ("is not changed" not in files_put(plan))
    assert (root / "file").read_text() == ("v1" if is_put_back else "v2")


def test_wishes_that_a_resume_refuses_are_refused_by_its_plan(rl: Relight, root: Path) -> None:
    seq = at(rl, "v1")
    for ref, way, kind in (
        ("job", {"in_place": True}, UsageError),
        ("job", {"name": "x"}, UsageError),
        (f"job@{seq}", {"in_place": True, "workspace": "/x"}, UsageError),
        (f"job@{seq}", {"name": "job"}, Conflict),
    ):
        reported = []
        for entry_point in (
            lambda ref, way: rl.runs.plan(ref, options=ResumeOptions(**way)),
            lambda ref, way: rl.runs.supervise(ref, ResumeOptions(**way)),
        ):
            with pytest.raises(kind) as refused:
                entry_point(ref, way)
            reported.append(str(refused.value))
        assert reported[0] == reported[1]
    with rl.session("other", workspace=root) as s:
        s.append(said("works there"))
        plan = rl.runs.plan(f"job@{seq}", options=ResumeOptions(in_place=True))
        with pytest.raises(NotResumable) as held:
            rl.runs.supervise(f"job@{seq}", ResumeOptions(in_place=True))
        assert [one.text for one in plan.reasons if one.blocks] == [held.value.why]


@pytest.mark.parametrize("lost", ["file", "directory", "nothing"])
def test_a_restore_at_the_head_puts_back_what_its_plan_says(rl: Relight, root: Path, tmp_path: Path, lost: str) -> None:
    (root / "mine").write_text("by a person")
    if lost == "file":
        (root / "file").unlink()
    elif lost == "directory":
        shutil.rmtree(root)
    plan = rl.runs.plan("job", options=ResumeOptions(restore=True))
    assert plan.ok, plan.reasons
    text = files_put(plan)
    supervision = rl.runs.supervise("job", ResumeOptions(restore=True))
    supervision.run()
    assert supervision.outcome is not None and (tmp_path / "seen").read_text() == f"{root} v2\n"
    put_back = supervision.outcome.put_back
    if lost == "nothing":
        assert text == "" and put_back is None
    else:
        words = {
            "file": f"1 file restored as of @{put_back}",
            "directory": f"as of @{put_back}; {root} is created again",
        }
        assert text.startswith(words[lost])
    assert (root / "mine").exists() == (lost != "directory")


def test_over_http_the_plan_takes_the_wishes_of_the_resume(harness: ServerHarness, root: Path, tmp_path: Path) -> None:
    client, seq = harness.client(), at(harness.rl, "v1")
    address = f"/api/sessions/job@{seq}"
    given = str(tmp_path / "given")
    plan = client.get(f"{address}/can-resume", params={"workspace": given}).json()
    assert plan["files_plan"] == {"action": "own_directory", "at": seq, "places": {"main": given}, "files": None}
    assert client.get(f"/api/checkpoints/job@{seq}/can-resume", params={"workspace": str(root)}).json()["ok"] is False
    refused = Answer(harness.client("read").get(f"{address}/can-resume", params={"workspace": "/etc"}))
    assert refused.status == 403, "what lies on the machine is not told to readers"
    plan = client.get(f"{address}/can-resume", params={"in_place": True}).json()
    started = client.post(f"{address}/resume", json={"in_place": True}, headers={"If-Match": plan["plan"]})
    assert started.status_code == 201, started.text
    outcome = started.json()
    assert outcome["workspace"] == plan["files_plan"]["places"] and outcome["put_back"] == plan["files_plan"]["at"]
    assert (root / "file").read_text() == "v1"


def test_the_command_line_shows_the_plan_of_its_own_flags(
    rl: Relight, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seq = at(rl, "v1")

    def shown(*words: str) -> str:
        assert run([*words, "--dry-run"]) == 0
        return capsys.readouterr().out

    beside = f"{root}-try"
    assert "in a new directory beside" in shown("resume", f"job@{seq}")
    assert beside in shown("resume", f"job@{seq}", "--name", "try")
    assert "a safety snapshot holds what is there now" in shown("resume", f"job@{seq}", "--in-place")
    assert f"in {beside}, created by its first start" in shown("fork", f"job@{seq}", "--name", "try")
    assert f"in {beside}, filled now" in shown("fork", f"job@{seq}", "--workspace", beside)
    assert "leave the model's view" in shown("rewind", f"job@{seq}", "--both")
    files_only = shown("rewind", f"job@{seq}", "--files")
    assert "leave the model's view" not in files_only and "M file" in files_only
    assert "M file" not in shown("rewind", f"job@{seq}", "--conversation")
    assert run(["rewind", f"job@{seq}", "--files", "--again", "c", "--dry-run"]) == 2
    assert not Path(beside).exists() and (root / "file").read_text() == "v2"


def test_a_fork_goes_where_its_plan_says_or_is_refused_alike(rl: Relight, root: Path, tmp_path: Path) -> None:
    seq = at(rl, "v1")
    for way in ({"name": "try"}, {"workspace": str(tmp_path / "given")}):
        plan = rl.files.plan_fork(f"job@{seq}", **way)
        made = rl.history.fork(f"job@{seq}", **way)
        assert plan is not None and made.workspace == plan.places and plan.at == seq
    for ref, way in ((f"job@{seq}", {"workspace": str(root)}), ("job@1", {"workspace": str(tmp_path / "new")})):
        reported = []
        for entry_point in (rl.files.plan_fork, rl.history.fork):
            with pytest.raises(RelightError) as refused:
                entry_point(ref, **way)
            reported.append(str(refused.value))
        assert reported[0] == reported[1]


def test_the_outcome_of_a_resume_is_a_value_at_every_door(
    harness: ServerHarness, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """M16: the library, sync and awaited, says what `resume --json` says."""
    rl, seq = harness.rl, at(harness.rl, "v1")

    async def awaited() -> Resumed:
        async with aio.open(harness.store) as opened:
            return await opened.runs.resume(f"job@{seq}", ResumeOptions(prompt="again", workspace=str(tmp_path / "b")))

    first = rl.runs.resume(f"job@{seq}", ResumeOptions(prompt="again", workspace=str(tmp_path / "a")))
    second = asyncio.run(awaited())
    capfd.readouterr()
    words = ["resume", f"job@{seq}", "again", "--workspace", str(tmp_path / "c"), "--json"]
    assert run(words) == 0
    reported = json.loads(capfd.readouterr().out)
    for made, where in ((first, "a"), (second, "b")):
        assert isinstance(made, Resumed) and made.ended.exit_code == 0 and made.ended.session.status == "completed"
        assert made.ended.session.id == made.session and made.workspace == {"main": str(tmp_path / where)}
        for field in (
            "attempt",
            "resumed_from",
            "checkpoint",
            "rung",
            "command",
            "put_back",
            "prompt_sent",
            "in_doubt",
        ):
            assert getattr(made, field) == reported[field], field
        assert made.resumed_from == seq and made.prompt_sent and made.attempt == 1
    assert reported["ended"]["exit_code"] == 0


def test_a_resume_by_a_program_names_what_accepts_a_moved_repository(rl: Relight, root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "file").write_text("v3")
    with rl.session("job") as s:
        s.append(said("v3"))
    (root / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    with pytest.raises(NotResumable) as refused:
        rl.runs.resume("job")
    assert refused.value.hints[0] == "to accept it: rl.files.accept_repository('job')"
    rl.files.accept_repository("job")
    assert rl.runs.resume("job").ended.session.status == "completed"
