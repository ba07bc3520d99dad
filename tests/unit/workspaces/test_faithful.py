"""A snapshot is faithful or says what it left out: the nasty tree, random trees, secrets, budgets, moving files."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relight.errors import SnapshotIncomplete, WorkspaceUnusable
from relight.testing.workspace_kit import MemorySegments, _wipe, picture
from relight.workspaces.changes import capture
from relight.workspaces.workspace import TreeWorkspace
from tests.support.figures import Figure
from tests.support.trees import Gardener, open_tree

EXAMPLES = 400 if os.environ.get("RELIGHT_PROOF") else 25 if os.environ.get("RELIGHT_TEETH") else 12


@pytest.mark.guarantee("G17")
def test_the_nasty_tree_comes_back(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    for directory in ("empty-repo/.git/refs", "repo/.git/objects", "repo/src", "void/deeper", "crlf"):
        (root / directory).mkdir(parents=True)
    (root / "repo/.git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "repo/.git/refs/heads").mkdir(parents=True)
    (root / "repo/.git/refs/heads/main").write_text("a" * 40 + "\n")
    (root / "repo/src/x.c").write_text("int x;\n")
    (root / "crlf/.gitattributes").write_text("* text=auto eol=lf\n")
    (root / "crlf/dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "private").write_bytes(b"p")
    (root / "private").chmod(0o600)
    (root / "void/deeper").chmod(0o711)
    with open(os.fsencode(root) + b"/bytes-\xff\xfe\n", "wb") as file:
        file.write(b"odd name")
    os.symlink("nowhere/at/all", root / "dangling")
    os.mkfifo(root / "pipe")
    with (root / "huge.bin").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    (root / "big.bin").write_bytes(os.urandom(1 << 20) * 9)
    os.link(root / "private", root / "hard-link")
    with open_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot()
        left_out = {one.path: one.reason for one in workspace.skipped(taken.id)}
        assert left_out == {b"pipe": "fifo", b"huge.bin": "too large"}
        assert [(head.path, head.ref, head.commit) for head in taken.heads] == [(b"repo", "refs/heads/main", "a" * 40)]
        before = picture(root, leave_out=left_out)
        _wipe(root)
        workspace.restore(workspace.plan_restore(taken.id))
        assert picture(root) == before


@pytest.mark.guarantee("G16")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_restore_then_undo_is_byte_identical(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    home = tmp_path_factory.mktemp("tree")
    root = home / "root"
    root.mkdir()
    gardener = Gardener(root, seed)
    with open_tree(root, home) as workspace:
        gardener.grow(40)
        first, then = workspace.snapshot(), picture(root)
        assert workspace.verify(first.id) == ()
        gardener.grow(40)
        second, now = workspace.snapshot(), picture(root)
        fifos = {path for path, what in (*then.items(), *now.items()) if what[0] == "special"}
        plan = workspace.plan_restore(first.id, last=second.id, history=[first.id, second.id], choice="force")
        workspace.restore(plan)
        blocked = {one.path for one in plan.decision.kept} | fifos
        reached = picture(root)
        for path in then.keys() - blocked:
            if not any(path.startswith(one + b"/") for one in blocked):
                assert reached.get(path) == then[path], path
        workspace.restore(workspace.plan_undo())
        assert picture(root) == now
        again = {p: (e.before, e.after) for e in workspace.diff(second.id) for p in [e.path]}
        assert again == {}


@pytest.mark.guarantee("G26")
def test_secrets_are_not_captured_unless_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "deep/.ssh").mkdir(parents=True)
    secrets = [
        ".env",
        ".env.local",
        "deep/.env.production",
        "server.pem",
        "deep/tls.key",
        "deep/.ssh/id_ed25519",
        ".netrc",
    ]
    for name in secrets:
        (root / name).write_text("CANARY-7f3a")
    (root / ".env.example").write_text("TOKEN=")
    (root / ".gitignore").write_text("!.env\n")
    with open_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot()
        reasons = {one.path: one.reason for one in workspace.skipped(taken.id)}
        assert {reasons[os.fsencode(name)] for name in secrets if "ssh" not in name} == {"secret"}
        assert reasons[b"deep/.ssh"] == "secret"
        assert workspace.read(taken.id, b".env.example") == b"TOKEN="
    stored = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"CANARY-7f3a" not in stored
    with open_tree(root, tmp_path / "home", include=(".env",)) as workspace:
        assert workspace.read(workspace.snapshot().id, b".env") == b"CANARY-7f3a"
    (root / ".relightignore").write_text("!deep/tls.key\n")
    with open_tree(root, tmp_path / "home") as workspace:
        assert workspace.read(workspace.snapshot().id, b"deep/tls.key") == b"CANARY-7f3a"


def test_a_link_whose_target_holds_a_secret_is_left_out(tmp_path: Path) -> None:
    root, token = tmp_path / "tree", "ghp_" + "a1B2c3D4" * 4 + "x9Z8"
    root.mkdir()
    (root / "link").symlink_to(f"/vault/{token}/current")
    (root / "other").symlink_to("/vault/current")
    with open_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot()
        assert {one.path: one.reason for one in workspace.skipped(taken.id)} == {b"link": "secret"}
        (root / "link").unlink()
        (root / "link").symlink_to("/vault/current")
        assert not workspace.skipped(workspace.snapshot().id), "and captured once it holds none"
    stored = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert token.encode() not in stored


def test_an_ignored_file_that_the_target_holds_is_saved_before_it_is_written_over(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "data").mkdir(parents=True)
    (root / "data/x").write_text("old")
    with open_tree(root, tmp_path / "home") as workspace:
        first = workspace.snapshot()
        (root / ".gitignore").write_text("data/\n")
        (root / "data/x").write_text("new and ignored")
        (root / "data/y").write_text("ignored too")
        second = workspace.snapshot()
        assert {one.path for one in workspace.skipped(second.id)} == {b"data"}
        plan = workspace.plan_restore(first.id, last=second.id, history=[first.id, second.id], choice="force")
        assert workspace.read(plan.safety.id, b"data/x") == b"new and ignored"
        workspace.restore(plan)
        assert (root / "data/x").read_text() == "old"
        assert (root / "data/y").read_text() == "ignored too"
        workspace.restore(workspace.plan_undo())
        assert (root / "data/x").read_text() == "new and ignored"


def test_budget_and_cap_leave_out_and_the_next_snapshot_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(6):
        (root / f"f{number}").write_bytes(bytes([number]) * 1000)
    with open_tree(root, tmp_path / "home", budget_bytes=2500, max_file_bytes=5000) as workspace:
        taken = workspace.snapshot()
        assert {one.reason for one in workspace.skipped(taken.id)} == {"budget"}
        assert workspace.verify(taken.id) == ()
        deadline = time.monotonic() + 10
        while workspace.skipped(workspace.snapshot().id):
            assert time.monotonic() < deadline, "what was over the budget is never caught up"
        (root / "large").write_bytes(b"x" * 6000)
        left_out = workspace.skipped(workspace.snapshot().id)
        assert [(one.path, one.reason, one.size_bytes) for one in left_out] == [(b"large", "too large", 6000)]


def test_a_file_that_never_stands_still_is_left_out_not_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "log").write_bytes(b"0" * 100)

    def write_more(_: str) -> None:
        with (root / "log").open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(capture, "point", write_more)
    with open_tree(root, tmp_path / "home") as workspace:
        taken = workspace.snapshot()
        assert [(one.path, one.reason) for one in workspace.skipped(taken.id)] == [(b"log", "changing")]
        monkeypatch.undo()
        whole = workspace.snapshot()
        assert workspace.read(whole.id, b"log") == (root / "log").read_bytes()


def test_a_file_rewritten_within_one_tick_is_seen(tmp_path: Path) -> None:
    """Same size, and its times set back to what they were: only the ctime and the racy mark can tell."""
    root = tmp_path / "tree"
    root.mkdir()
    with open_tree(root, tmp_path / "home") as workspace:
        for number in range(200):
            (root / "f").write_bytes(b"%06d" % number)
            os.utime(root / "f", ns=(1_000_000_000, 1_000_000_000))
            assert workspace.read(workspace.snapshot().id, b"f") == b"%06d" % number


def test_a_clock_that_goes_back_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "f").write_bytes(b"one")
    with open_tree(root, tmp_path / "home") as workspace:
        monkeypatch.setattr("relight.workspaces.changes.capture.time.time_ns", lambda: 1_000_000_000)
        first = workspace.snapshot()
        (root / "f").write_bytes(b"two")
        os.utime(root / "f", ns=(5, 5))
        second = workspace.snapshot()
        assert first.id != second.id
        assert workspace.read(second.id, b"f") == b"two"


def test_what_cannot_be_read_is_an_error_that_lists_it(memory_path: Path) -> None:
    root = memory_path / "tree"
    (root / "closed").mkdir(parents=True)
    (root / "secret").write_bytes(b"x")
    (root / "secret").chmod(0)
    (root / "closed").chmod(0)
    memory_path.chmod(0o777)  # pytest's own directories are closed to others
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom tests.support.trees import open_tree\n"
        "from relight.errors import SnapshotIncomplete\n"
        "if os.geteuid() == 0: os.setegid(65534); os.seteuid(65534)\n"  # root may read everything
        "w = open_tree(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "try: w.snapshot()\nexcept SnapshotIncomplete as e: print(sorted(p for p, _ in e.unreadable))\n"
        "w = open_tree(Path(sys.argv[1]), Path(sys.argv[2]), unreadable='skip')\n"
        "print([(s.path, s.reason) for s in w.skipped(w.snapshot().id)])\n"
    )
    done = _python(script, str(root), str(memory_path / "home"))
    assert done == [
        "[b'closed', b'secret']",
        "[(b'closed', 'unreadable'), (b'secret', 'unreadable')]",
    ]
    assert SnapshotIncomplete.code == "RL-4102"


def _python(script: str, *arguments: str) -> list[str]:
    import sys

    repo = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=repo,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{repo}:{repo / 'src'}", "RELIGHT_NATIVE": "0"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_places_that_are_no_workspace_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home-of-someone"))
    (tmp_path / "home-of-someone").mkdir()
    (tmp_path / "home/blobs/in").mkdir(parents=True)
    for path in (
        Path("/"),
        tmp_path / "home-of-someone",
        Path("/proc"),
        tmp_path / "home/blobs/in",
        tmp_path / "missing",
    ):
        with pytest.raises(WorkspaceUnusable) as refused:
            open_tree(path, tmp_path / "home")
        assert str(path) in str(refused.value)


def test_its_own_store_inside_the_workspace_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("x")
    (tmp_path / "p.db").write_text("x")
    blobs = tmp_path / "p.db.blobs"
    with TreeWorkspace(tmp_path, blobs=blobs, rows=MemorySegments(), store=[tmp_path / "p.db"]) as workspace:
        first = workspace.snapshot()
        (tmp_path / "p.db").write_text("y")
        assert workspace.snapshot().id == first.id
        left_out = {(one.path, one.reason) for one in workspace.skipped(first.id)}
        assert left_out == {(b"p.db.blobs", "store"), (b"p.db", "store")}


def test_many_threads_may_take_snapshots(tmp_path: Path, figure: Figure) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    ids: list[str] = []
    with open_tree(root, tmp_path / "home") as workspace:

        def work(number: int) -> None:
            for turn in range(5):
                (root / f"f{number}").write_bytes(b"%d" % turn)
                ids.append(workspace.snapshot().id)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [problem for one in set(ids) for problem in workspace.verify(one)] == []
    figure("G17", f"{len(ids)} snapshots from 4 threads, all whole")


def test_names_that_pass_for_the_repository_are_told(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / ".GIT").mkdir(parents=True)
    (root / ".GIT" / "notes").write_text("mine")
    for name in ("git~1", ".git.", ".Git "):
        (root / name).write_text("mine")
    (root / "below").mkdir()
    (root / "below" / "git~1").write_text("plain here")
    with open_tree(root, tmp_path / "home") as tree:
        taken = tree.snapshot()
        assert {one.path: one.reason for one in tree.skipped(taken.id)} == {
            b".GIT": "git",
            b"git~1": "git",
            b".git.": "git",
            b".Git ": "git",
        }
        tree.restore(tree.plan_restore(taken.id, choice="force", exact=True))
        assert (root / ".GIT" / "notes").read_text() == "mine"
        assert tree.read(taken.id, b"below/git~1") == b"plain here"
