"""A start is all or nothing, at every entry point and for every way it can fail; a session that is started from a
checkpoint has that checkpoint's files in a directory of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import relight
from relight.errors import Conflict, LeaseHeld, NotResumable, RelightError, StoreUnavailable, UsageError
from relight.history.documents import session_document
from relight.library.facade import Relight
from relight.ports import faults
from relight.processes import background
from relight.processes.background import StatusPipe, start_in_background
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import Allowance
from tests.support.server_harness import ServerHarness
from tests.support.shell import command, environment, eventually

PYTHON = sys.executable
AGENT = """
import os, pathlib, time, relight
here = pathlib.Path.cwd()
with relight.open() as rl, rl.session("any") as s:
    said = [one["content"] for one in s.messages if one["role"] == "user"]
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{s.id} {here} {(here / 'file').read_text()} {said[-1:]}\\n")
    for number in (1, 2, 3) if s.is_new else ():
        (here / "file").write_text(f"v{number}")
        s.append({"role": "assistant", "content": f"wrote v{number}"})
    s.complete()
"""


class Scene:
    """A completed session whose file went v0, v1, v2, v3; `at(n)` is the checkpoint at which it was vn."""

    def __init__(self, base: Path) -> None:
        self.base, self.work = base, base / "work"
        self.work.mkdir()
        (self.work / "file").write_text("v0")
        self.program = base / "agent.py"
        self.program.write_text(f"#!{PYTHON}\n{AGENT}")
        self.program.chmod(0o755)
        self.store = base / "store" / "r.db"
        self.seen = base / "seen"
        self.rl = relight.open(self.store)
        self.rl.runs.supervise(self.plan("job")).run()
        assert self.rl.sessions.get("job").status == "completed"

    def plan(self, name: str) -> Any:
        roots = {"main": str(self.work)}
        options = RunOptions(directory=str(self.work), agent="agent", name=name, workspace=roots)
        return self.rl.runs.plan_launch([str(self.program)], options)

    def at(self, number: int) -> str:
        seq = next(
            one.seq
            for one in self.rl.history.checkpoints("job")
            if self.rl.history.load(f"job@{one.seq}").messages[-1:] == [reply(number)]
        )
        return f"job@{seq}"

    def everything(self) -> tuple[Any, ...]:
        """All sessions as `show --json` has them, what is stored of each, and every directory beside the workspace."""
        shown = [session_document(one) for one in self.rl.sessions.list()]
        for one in shown:
            one.pop("evidence")  # a lease that was given back leaves its epoch
        steps = [(one["id"], list(self.rl.store.steps(one["id"]))) for one in shown]
        listed = sorted(str(one.relative_to(self.base)) for one in self.base.iterdir())
        return shown, steps, listed, sorted(one.name for one in self.work.iterdir()) if self.work.is_dir() else None

    def reported(self) -> list[str]:
        return self.seen.read_text().splitlines() if self.seen.exists() else []


def reply(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"wrote v{number}"}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "store" / "r.db"))
    for name, value in environment(tmp_path / "store" / "r.db").items():
        if name.startswith("PYTHON"):
            monkeypatch.setenv(name, value)
    made = Scene(tmp_path)
    yield made
    faults.disarm()
    made.rl.close()


# -- the ways --------------------------------------------------------------------------------------------------------


@contextmanager
def no_program(scene: Scene) -> Iterator[None]:
    scene.program.rename(scene.base / ".agent")
    yield
    (scene.base / ".agent").rename(scene.program)


@contextmanager
def no_interpreter(scene: Scene) -> Iterator[None]:
    text = scene.program.read_text()
    scene.program.write_text("#!/no/such/interpreter\n")
    yield
    scene.program.write_text(text)


@contextmanager
def no_format(scene: Scene) -> Iterator[None]:
    """Only the system's own exec can tell."""
    text = scene.program.read_text()
    scene.program.write_bytes(b"\x7fELF, and then nothing that a machine could run")
    yield
    scene.program.write_text(text)


@contextmanager
def no_secret(scene: Scene) -> Iterator[None]:
    identity = scene.rl.store.find(scene.rl.sessions.get("job").id).identity  # type: ignore[union-attr]
    scene.rl.store.update(identity.id, lambda now: msgspec.structs.replace(now, secrets=["NO_SUCH_SECRET"]))
    yield
    scene.rl.store.update(identity.id, lambda _: identity)


@contextmanager
def a_file_for_the_workspace(scene: Scene) -> Iterator[None]:
    scene.work.rename(scene.base / ".work")
    scene.work.write_text("a plain file")
    yield
    scene.work.unlink()
    (scene.base / ".work").rename(scene.work)


@contextmanager
def no_workspace(scene: Scene) -> Iterator[None]:
    scene.work.rename(scene.base / ".work")
    yield
    (scene.base / ".work").rename(scene.work)


def failing(point: str) -> Callable[[Scene], Any]:
    @contextmanager
    def way(scene: Scene) -> Iterator[None]:
        def fail(name: str) -> None:
            faults.disarm()
            raise faults.InjectedFault(name)

        faults.arm(point, fail)
        yield
        faults.disarm()

    way.__name__ = point
    return way


Starter = Callable[[Scene], Any]


def resumes(ref: str | None = None, **options: Any) -> Starter:
    """In front, in the library: what the command line does too."""
    return lambda scene: scene.rl.runs.supervise(ref or scene.at(1), ResumeOptions(prompt="p", **options)).run()


def runs(scene: Scene) -> Any:
    return scene.rl.runs.supervise(scene.plan("other")).run()


def opens(scene: Scene) -> Any:
    return scene.rl.session(scene.at(1))


BEFORE_THE_COMMIT = [failing(one) for one in ("resume.planned", "commit.enter")]
IN_THE_COMMIT = [failing(one) for one in ("commit.begun", "commit.written")]
FILLING = [failing(one) for one in ("restore.begun", "restore.written", "restore.acted", "restore.noted")]
HEAD = [no_program, no_interpreter, no_secret, a_file_for_the_workspace, no_workspace]


def failed(start: Callable[[], Any]) -> bool:
    try:
        start()
    except (RelightError, faults.InjectedFault):
        return True
    return False


def test_a_start_that_fails_leaves_everything_as_it_was(scene: Scene) -> None:
    """Each way at each entry point of the library; the others stand on these."""
    cases: list[tuple[Starter, list[Callable[[Scene], Any]]]] = [
        (resumes("job"), [*HEAD, *BEFORE_THE_COMMIT, *IN_THE_COMMIT]),
        (resumes("job", restore=True), [a_file_for_the_workspace, no_program, *BEFORE_THE_COMMIT]),
        (resumes(), [no_program, no_interpreter, no_format, no_secret, *BEFORE_THE_COMMIT, *FILLING]),
        (resumes(workspace=str(scene.base / "a" / "b")), [no_program, no_format, *FILLING]),
        (resumes(in_place=True), [no_program, no_format]),
        (runs, [no_program, no_interpreter, no_format, a_file_for_the_workspace, *BEFORE_THE_COMMIT]),
        (opens, [*BEFORE_THE_COMMIT, *FILLING]),
    ]
    tried = 0
    for entry_point, ways in cases:
        for way in ways:
            before, content = scene.everything(), (scene.work / "file").read_text()
            with way(scene):
                assert failed(lambda: entry_point(scene)), way.__name__  # noqa: B023
            assert scene.everything() == before, way.__name__
            assert (scene.work / "file").read_text() == content, way.__name__
            tried += 1
    assert len(scene.reported()) == 1, "nothing ran but the first run"
    assert tried > 30
    scene.rl.runs.supervise("job", ResumeOptions(prompt="now")).run()
    assert scene.reported()[-1].endswith("['now']"), "and of all the prompts only this one is there"
    assert sum(one["role"] == "user" for one in scene.rl.history.load("job").messages) == 1


@pytest.mark.parametrize("held", ["v3", "v1", "a person's", None])
def test_a_start_in_place_that_fails_leaves_the_files_as_they_were_whatever_they_were(
    scene: Scene, held: str | None
) -> None:
    """Also where they are those of the checkpoint, so that nothing was put back: the fork stayed behind as failed."""
    file = scene.work / "file"
    file.unlink()
    if held is not None:
        file.write_text(held)
    before = scene.everything()
    with no_format(scene):
        assert failed(lambda: resumes(in_place=True)(scene))
    assert scene.everything() == before
    assert (file.read_text() if file.exists() else None) == held


@contextmanager
def away_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A store that cannot be reached when limits are changed, and can again at once."""
    kept, calls = type(scene.rl.store).update, []

    def update(store: Any, session: str, change: Any) -> Any:
        calls.append(session)
        if len(calls) == 1:
            raise StoreUnavailable("gone for a moment")
        return kept(store, session, change)

    with monkeypatch.context() as patch:
        patch.setattr(type(scene.rl.store), "update", update)
        yield calls


LIMITED = ResumeOptions(prompt="p", limits=Allowance(time_limit=60))


@pytest.mark.parametrize("in_place", [False, True])
def test_a_store_that_is_away_just_after_the_claim_leaves_everything_as_it_was(
    scene: Scene, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is committed, the new limits are not: the fork, and what was put back in place, are taken back."""
    options = msgspec.structs.replace(LIMITED, in_place=in_place)
    supervision, before = scene.rl.runs.supervise(scene.at(1), options), scene.everything()
    with away_once(scene, monkeypatch) as calls, pytest.raises(StoreUnavailable):
        supervision.run()
    assert calls and scene.everything() == before
    assert (scene.work / "file").read_text() == "v3"


def test_after_a_store_that_was_away_just_after_the_claim_the_next_start_takes_it_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session that was there before the attempt stays recorded, and nobody waits for the end of its lease."""
    first = scene.rl.runs.supervise("job", LIMITED)
    with away_once(scene, monkeypatch), pytest.raises(StoreUnavailable):
        first.run()
    scene.rl.runs.supervise("job", LIMITED).run()
    assert scene.rl.sessions.get("job").status == "completed"


def test_a_workspace_that_was_lost_is_put_back_or_the_start_leaves_no_directory(scene: Scene) -> None:
    with no_workspace(scene):
        before = scene.everything()
        with no_format(scene), pytest.raises(RelightError):
            faults.arm("commit.enter", lambda name: (_ for _ in ()).throw(Conflict("somebody")))
            scene.rl.runs.supervise("job", ResumeOptions(prompt="p", restore=True)).run()
        faults.disarm()
        assert scene.everything() == before
        supervision = scene.rl.runs.supervise("job", ResumeOptions(prompt="p", restore=True))
        supervision.run()
        assert (scene.work / "file").read_text() == "v3"
        assert supervision.outcome is not None and supervision.outcome.put_back is not None
        (scene.work / "file").unlink()
        scene.work.rmdir()


def test_a_lease_that_is_lost_in_between_leaves_the_session_to_its_owner(scene: Scene) -> None:
    def taken(name: str) -> None:
        faults.disarm()
        with relight.open(scene.store) as other:
            other.runs.prepare("job", prompt="theirs")
            opened.append(other.session("job"))

    opened: list[Any] = []
    faults.arm("resume.planned", taken)
    with pytest.raises(LeaseHeld):
        scene.rl.runs.supervise("job", ResumeOptions(prompt="mine")).run()
    said = [one["content"] for one in scene.rl.history.load("job").messages if one["role"] == "user"]
    assert said == ["theirs"] and len(scene.reported()) == 1


@pytest.mark.parametrize(
    ("fault", "happened"),
    [("resume.planned:1:kill", False), ("restore.written:1:kill", False), ("commit.committed:1:kill", True)],
)
def test_a_kill_before_the_commit_leaves_nothing_and_after_it_the_start_happened(
    scene: Scene, fault: str, happened: bool
) -> None:
    before = scene.everything()
    words = command("resume", scene.at(2), "again", "--yes", "--quiet", "--name", "again")
    killed = subprocess.run(words, env={**os.environ, "RELIGHT_FAULT": fault}, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    if not happened:
        assert scene.everything()[:2] == before[:2]
        done = subprocess.run(words, env=dict(os.environ), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        left = {one.name for one in scene.base.iterdir()} - {one.split("/")[0] for one in before[2]}
        assert left == {"work-again"}, "what the killed one had made is gone"
    else:
        assert scene.rl.sessions.get("again").attempt == 1
        scene.rl.runs.resume("again", ResumeOptions(prompt="and on"))
    assert (scene.base / "work-again" / "file").read_text() == "v2"
    assert scene.reported()[-1].split()[2] == "v2"


# -- in the background, and over HTTP --------------------------------------------------------------------------------


def test_a_supervisor_that_dies_before_it_began_leaves_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_FAULT", "resume.planned:1:kill")
    before = scene.everything()
    for what in ("job", scene.at(1), scene.plan("other")):
        with pytest.raises(RelightError) as caught:
            start_in_background(scene.rl, what, ResumeOptions(prompt="p"))
        assert caught.value.code == "RL-3001"
        assert scene.everything() == before, what


def test_what_only_the_supervisor_can_refuse_is_raised_as_it_was_raised_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_CONFIG", str(scene.base / "gone.toml"))
    before = scene.everything()
    for what in ("job", scene.at(1), scene.plan("other")):
        with pytest.raises(UsageError, match="cannot read the settings") as caught:
            start_in_background(scene.rl, what, ResumeOptions(prompt="p"))
        assert "RELIGHT_CONFIG" in caught.value.hints[0]
        assert scene.everything() == before, what


def test_the_first_report_of_a_supervisor_counts_and_no_other_file_gets_one(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    pipe, raised = StatusPipe(writer), LeaseHeld("job", owner="pid 7", until="12:00", epoch=3)
    pipe.refused(raised)
    with (tmp_path / "other").open("wb") as other:
        assert other.fileno() == writer, "the number is in use again"
        pipe.refused(Conflict("too late"))
    assert (tmp_path / "other").read_bytes() == b""
    report = background._wait_for_report(reader, 10)
    os.close(reader)
    assert report.refused is not None
    received = background._as_raised(report.refused)
    assert type(received) is LeaseHeld and vars(received) == vars(raised) and str(received) == str(raised)


def test_over_http_a_start_that_fails_leaves_everything_as_it_was(scene: Scene) -> None:
    harness = ServerHarness(scene.store)
    try:
        client = harness.client()
        job, below = "/api/sessions/job/resume", scene.at(1)
        asked = [
            (job, {"prompt": "p"}),
            (job, {"prompt": "p", "restore": True}),
            (f"/api/sessions/{below}/resume", {"prompt": "p"}),
            (f"/api/checkpoints/{below}/resume", {"prompt": "p", "workspace": str(scene.base / "w")}),
            ("/api/agent/runs/resume", {"checkpointId": below, "prompt": "p"}),
            ("/api/sessions", {"command": [str(scene.program)], "directory": str(scene.base), "name": "new"}),
        ]
        before = scene.everything()
        for path, body in asked:
            with no_program(scene):
                answer = client.post(path, json=body)
            assert answer.status_code in (400, 409), answer.text
            assert scene.everything() == before, (path, body)
        for path, body in asked[:2]:
            with a_file_for_the_workspace(scene):
                answer = client.post(path, json=body)
            assert answer.status_code in (400, 409), answer.text
            assert scene.everything() == before, (path, body)
    finally:
        harness.close()


NO_DIRECTORY = ("/", "//", "/..", "a\0b", "", "\udcff", "y" * 300, "x/" * 3000, "/proc/none")


@pytest.mark.parametrize("place", NO_DIRECTORY, ids=lambda place: repr(place)[:12])
def test_a_place_that_can_be_no_workspace_is_refused_by_name_and_nothing_is_left(scene: Scene, place: str) -> None:
    """Raised by each entry point as an error that says so; none of the system's own gets through."""
    below, before = scene.at(1), scene.everything()
    given = place if place.startswith("/") or len(place) < 5 else str(scene.base / place)
    starts: list[Callable[[], Any]] = [
        lambda: scene.rl.history.fork(below, workspace=given),
        lambda: scene.rl.history.fork(below, workspace={"main": given}),
        lambda: start_in_background(scene.rl, below, ResumeOptions(prompt="p", workspace=given)),
        lambda: resumes(workspace=given)(scene),
        lambda: scene.rl.session("new", workspace=given),
        lambda: scene.rl.runs.plan_launch(["true"], RunOptions(directory=given or "/no", agent="true")),
    ]
    for start in starts[: -1 if given.startswith("//") or given in ("/", "/..") else None]:
        with pytest.raises(RelightError):
            start()
        assert scene.everything() == before


def test_one_shape_of_answer_over_http_and_the_files_of_the_checkpoint(scene: Scene) -> None:
    harness = ServerHarness(scene.store)
    try:
        client, below = harness.client(), scene.at(1)
        seq = int(below.partition("@")[2])
        one = client.post("/api/agent/runs/resume", json={"checkpointId": below, "prompt": "another way"}).json()
        other = client.post(f"/api/checkpoints/{below}/resume", json={"prompt": "a third"}).json()
        assert set(one) - set(other) == {"checkpointId"} and not set(other) - set(one)
        for made, said in ((one, "another way"), (other, "a third")):
            assert made["resumed_from"] == seq and made["checkpoint"] == f"{scene.rl.sessions.get('job').id}@{seq}"
            assert made["prompt_sent"] and made["attempt"] == 1 and made["command"] == [str(scene.program)]
            session = made["session"]["id"]
            assert made["workspace"] == {"main": f"{scene.work}-{session[:8]}"} and made["put_back"] is not None
            eventually(lambda: scene.rl.sessions.get(session).status == "completed", what="its end")  # noqa: B023
            line = next(line for line in scene.reported() if line.startswith(session))
            assert line.split()[1:3] == [f"{scene.work}-{session[:8]}", "v1"] and line.endswith(f"['{said}']")
        assert (scene.work / "file").read_text() == "v3"
    finally:
        harness.close()


# -- the files of a checkpoint ---------------------------------------------------------------------------------------


def test_a_fork_has_its_own_directory_when_it_is_started_and_never_its_parents(scene: Scene) -> None:
    for number, start in ((1, scene.rl.runs.resume), (2, open_and_look)):
        fork = scene.rl.history.fork(scene.at(number), name=f"fork-{number}")
        path = Path(fork.workspace["main"])
        assert path == Path(f"{scene.work}-fork-{number}") and not path.exists(), "O(1): nothing is copied yet"
        start(f"fork-{number}", ResumeOptions(prompt="go"))
        assert (path / "file").read_text() == f"v{number}"
        assert (scene.work / "file").read_text() == "v3"
    named = scene.rl.history.fork(scene.at(1), name="third", workspace=str(scene.base / "third"))
    assert Path(named.workspace["main"], "file").read_text() == "v1"
    taken = scene.rl.history.fork(scene.at(1), name="fork-3")
    (scene.base / "work-fork-4").mkdir()
    assert taken.workspace["main"] == f"{scene.work}-fork-3"
    assert scene.rl.history.fork(scene.at(1), name="fork-4").workspace["main"] == f"{scene.work}-fork-4-2"

    def look_here(rl: Relight) -> None:
        with rl.session(scene.at(1)) as s:
            assert Path(rl.sessions.get(s.id).workspace["main"], "file").read_text() == "v1"

    look_here(scene.rl)


def open_and_look(ref: str, options: ResumeOptions) -> None:
    with relight.open() as rl, rl.session(ref) as s:
        s.append({"role": "user", "content": options.prompt})


def test_in_place_puts_the_original_directory_back_and_is_refused_while_another_session_runs_there(
    scene: Scene,
) -> None:
    (scene.work / "mine").write_text("nobody captured this")
    with scene.rl.session("job") as s, pytest.raises(NotResumable):
        assert s.is_finished
        with scene.rl.session("neighbour", workspace=scene.work):
            scene.rl.runs.resume(scene.at(1), ResumeOptions(prompt="p", in_place=True))
    assert (scene.work / "file").read_text() == "v3"
    supervision = scene.rl.runs.supervise(scene.at(1), ResumeOptions(prompt="p", in_place=True, name="there"))
    supervision.run()
    assert scene.reported()[-1].split()[1:3] == [str(scene.work), "v1"]
    assert (scene.work / "mine").read_text() == "nobody captured this"
    assert supervision.outcome is not None and supervision.outcome.put_back is not None
    scene.rl.history.undo("there")
    assert (scene.work / "file").read_text() == "v3"


def test_a_resume_of_a_resume_inherits_the_whole_execution_context(scene: Scene) -> None:
    first = scene.rl.store.find(scene.rl.sessions.get("job").id)
    assert first is not None
    changed = msgspec.structs.replace(first.identity, labels={"team": "web"}, secrets=["SEEN"], runtime="process")
    scene.rl.store.update(changed.id, lambda _: changed)
    once = scene.rl.runs.resume(scene.at(1), ResumeOptions(prompt="one")).ended.session
    twice = scene.rl.runs.resume(f"{once.id}@{once.head - 1}", ResumeOptions(prompt="two")).ended.session
    again = scene.rl.runs.resume(twice.id, ResumeOptions(prompt="three")).ended.session
    records = [scene.rl.store.find(one.id) for one in (once, twice, again)]
    for record in records:
        assert record is not None
        ours, theirs = record.identity, changed
        for field in ("command", "policy", "secrets", "labels", "agent", "provider", "runtime", "snapshot"):
            assert getattr(ours, field) == getattr(theirs, field), field
    assert again.id == twice.id and again.resumed_from == twice.head
    assert [line.split()[2] for line in scene.reported()[1:]] == ["v1"] * 3
