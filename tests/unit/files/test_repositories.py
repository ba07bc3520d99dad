"""A workspace whose repository is gone, or on another branch, is named before a start, and started only if accepted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import relight
from relight import aio
from relight.errors import NotFound, NotResumable
from relight.journal.files.repository_state import moved, repository_head
from relight.library.facade import Relight
from relight.telemetry import notices
from relight.values.options import RunOptions
from relight.values.snapshot import GitHead
from tests.support.server_harness import Answer, ServerHarness
from tests.support.shell import Shell


def repository(root: Path, branch: str = "main", commit: str = "1" * 40) -> None:
    """As git would leave it: HEAD and a commit. git is not run."""
    (root / ".git" / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    (root / ".git" / "refs" / "heads" / branch).write_text(f"{commit}\n")


def reasons(rl: Relight, ref: str = "g") -> list[str]:
    return [one.text for one in rl.runs.plan(ref).reasons if one.code == "repository_moved"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "w"
    made.mkdir()
    (made / "file").write_text("x")
    repository(made)
    return made


@pytest.fixture
def rl(tmp_path: Path, root: Path) -> Iterator[Relight]:
    """A store with a session that relight can start again, its files captured, its program ended."""
    with relight.open(tmp_path / "a.db") as opened:
        command, locations = ["sh", "-c", "exit 0"], {"main": str(root)}
        opened.runs.create(command, RunOptions(agent="sh", name="g", directory=str(root), workspace=locations))
        with opened.session("g") as s:
            s.append({"role": "user", "content": "its program works, and captures"})
        yield opened


def test_a_repository_that_is_gone_is_named_and_refused(rl: Relight, root: Path) -> None:
    assert reasons(rl) == [] and rl.runs.plan("g").ok
    shutil.rmtree(root / ".git")
    before = rl.sessions.get("g").seq
    assert reasons(rl) == [f"{root}: its repository (.git) is gone; it was on branch main"]
    assert not rl.runs.plan("g").ok
    with pytest.raises(NotResumable, match=r"\.git\) is gone"):
        rl.runs.supervise("g")
    with pytest.raises(NotResumable, match=r"\.git\) is gone"):
        rl.runs.check_start("g")
    assert rl.sessions.get("g").seq == before


def test_another_branch_is_named_and_goes_on_once_it_is_accepted(rl: Relight, root: Path) -> None:
    repository(root, commit="2" * 40)
    assert reasons(rl) == [], "another commit on the same branch is work going on"
    repository(root, "other")
    assert reasons(rl) == [f"{root}: its repository is on branch other, and was on branch main"]
    with pytest.raises(NotResumable):
        rl.runs.supervise("g")
    rl.files.accept_repository("g")
    assert reasons(rl) == [] and rl.runs.plan("g").ok
    with pytest.raises(NotFound):
        rl.files.accept_repository("g")
    repository(root, "third")
    assert reasons(rl) == [f"{root}: its repository is on branch third, and was on branch main"]
    repository(root, "other")
    rl.runs.supervise("g").run()
    assert reasons(rl) == []


def test_a_fork_in_a_directory_of_its_own_has_no_repository_to_miss(rl: Relight, tmp_path: Path) -> None:
    rl.history.fork("g", name="f", workspace=str(tmp_path / "f"))
    assert not (tmp_path / "f" / ".git").exists()
    assert reasons(rl, "f") == []


def test_what_counts_is_the_branch() -> None:
    main, other = GitHead(path=b"", ref="refs/heads/main", commit="1"), GitHead(path=b"", ref="refs/heads/x")
    detached = GitHead(path=b"", commit="1")
    assert moved(repository_head(main), is_there=True, now=main) is None
    assert moved(repository_head(None), is_there=False, now=None) is None
    assert moved(repository_head(None), is_there=True, now=main) is None, "one that was made since is no loss"
    assert (
        moved(repository_head(main), is_there=True, now=other)
        == "its repository is on branch x, and was on branch main"
    )
    assert moved(repository_head(main), is_there=True, now=detached) == (
        "its repository is on no branch, and was on branch main"
    )
    assert "cannot be read" in str(moved(repository_head(main), is_there=True, now=None))
    assert moved(repository_head(detached), is_there=True, now=GitHead(path=b"", commit="2")) is None


def opened_by_a_program(store: Path, root: Path | None, text: str) -> None:
    with relight.open(store) as rl, rl.session("own", workspace=root) as s:
        s.append({"role": "user", "content": text})


async def opened_awaited(store: Path, root: Path | None, text: str) -> None:
    async with aio.open(store) as rl, await rl.session("own", workspace=root) as s:
        await s.append({"role": "user", "content": text})


def both_doors(store: Path, root: Path | None, text: str) -> None:
    """A program opens the session and appends, awaited too; what refuses it is the same."""
    said = set()
    for entry_point in (
        lambda: opened_by_a_program(store, root, text),
        lambda: asyncio.run(opened_awaited(store, root, text)),
    ):
        try:
            entry_point()
        except NotResumable as error:
            said.add((error.message, error.hints))
        else:
            said.add(("", ()))
    assert len(said) == 1, said
    message, hints = said.pop()
    if message:
        assert "to accept it: rl.files.accept_repository('own')" in hints and "--" not in str(hints)
        raise NotResumable("own", message)


def test_a_program_that_opens_its_session_itself_is_refused_another_branch(tmp_path: Path, root: Path) -> None:
    """M15, in the library: sync and awaited."""
    store = tmp_path / "a.db"
    both_doors(store, root, "first")
    repository(root, commit="2" * 40)
    both_doors(store, root, "on the same branch")
    repository(root, "other")
    with relight.open(store) as rl:
        before = rl.sessions.get("own")
        for workspace in (root, None):
            with pytest.raises(NotResumable, match="is on branch other, and was on branch main"):
                both_doors(store, workspace, "not written")
        assert rl.sessions.get("own") == before, "nothing is touched"
        assert not rl.runs.plan("own").ok
        rl.files.accept_repository("own")
    both_doors(store, root, "on a branch that was accepted")
    shutil.rmtree(root / ".git")
    with pytest.raises(NotResumable, match=r"\.git\) is gone; it was on branch other"):
        both_doors(store, root, "not written")


def test_a_program_that_names_another_directory_says_itself_where_it_works(tmp_path: Path, root: Path) -> None:
    store, elsewhere = tmp_path / "a.db", tmp_path / "elsewhere"
    opened_by_a_program(store, root, "first")
    shutil.copytree(root, elsewhere, ignore=lambda *_: [".git"])
    opened_by_a_program(store, elsewhere, "moved by the program")


def test_a_completed_session_is_read_and_goes_on_only_where_its_repository_is(tmp_path: Path, root: Path) -> None:
    store = tmp_path / "a.db"
    with relight.open(store) as rl:
        with rl.session("own", workspace=root) as s:
            s.append({"role": "user", "content": "x"})
            s.complete("done")
        shutil.rmtree(root / ".git")
        with rl.session("own") as s:
            assert s.is_finished and s.result == "done"
            with pytest.raises(NotResumable, match="is gone"):
                s.run(lambda _: {"role": "assistant", "content": "y"}, prompt="more")
        assert rl.sessions.get("own").status == "completed"


def test_a_supervised_program_is_not_asked_again(rl: Relight, root: Path, tmp_path: Path) -> None:
    """It switched branches itself and died before the next capture: the supervisor starts it again."""
    repository(root, "other")
    rl.files.accept_repository("g")
    repository(root, "third")  # between the supervisor's look and the program's
    owner = rl._context.host.owner("o" * 32)
    rl._context.inherited.update(session=rl.sessions.get("g").id, owner=owner.id)
    with rl.session("g") as s:
        s.append({"role": "user", "content": "goes on"})


def test_what_a_framework_writes_is_told_and_not_lost(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_PRINTED", set())
    from relight.sessions.shared import Write
    from relight.values.step import Changes

    def write(text: str) -> None:
        with relight.open(tmp_path / "a.db") as rl:
            shared = rl.sessions.shared("conversation", agent="framework", workspace=root)
            assert shared.write(lambda _: Write(changes=Changes(messages=({"role": "user", "content": text},))))
            shared.close()

    write("first")
    assert "repository" not in caplog.text
    repository(root, "other")
    write("paid for already")
    assert "conversation: " in caplog.text and "is on branch other" in caplog.text


def test_yes_does_not_accept_a_moved_repository_and_the_flag_tells_what_it_accepts(
    rl: Relight, root: Path, tmp_path: Path
) -> None:
    shell = Shell(tmp_path / "a.db", tmp_path)
    repository(root, "other")
    before = rl.sessions.get("g").seq
    refused = shell.run("resume", "g", "--yes")
    assert refused.returncode == 4 and rl.sessions.get("g").seq == before
    assert "hint: to accept it: relight resume g --accept-repository" in refused.stderr
    assert "is on branch other, and was on branch main" in refused.stderr
    gone_on = shell.run("resume", "g", "--accept-repository", "-q")
    assert gone_on.returncode == 0, gone_on.stderr
    assert f"accepted (@{before + 1}): {root}: its repository is on branch other" in gone_on.stderr


def test_over_http_the_refusal_names_the_request_that_accepts(tmp_path: Path, root: Path) -> None:
    harness = ServerHarness(tmp_path / "h.db")
    try:
        harness.rl.runs.create(
            ["true"], RunOptions(agent="sh", name="g", directory=str(root), workspace={"main": str(root)})
        )
        with harness.rl.session("g") as s:
            s.append({"role": "user", "content": "x"})
        repository(root, "other")
        client = harness.client()
        refused = Answer(client.post("/api/sessions/g/resume", json={}))
        assert refused.status == 409 and "branch other" in refused.document["detail"]
        cure, back = refused.document["hints"]
        assert cure == "to accept it: POST /api/sessions/g/accept-repository" and "--" not in back
        method, _, address = cure.removeprefix("to accept it: ").partition(" ")
        assert client.request(method, address, json={}).status_code == 200
        assert client.get("/api/sessions/g/can-resume").json()["ok"]
    finally:
        harness.close()
