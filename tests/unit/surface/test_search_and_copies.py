"""`rl.sessions.search(text)`, `rl.admin.index`, `rl.admin.copy`, `rl.admin.backup`: the rows of the surface."""

from __future__ import annotations

from pathlib import Path

import relight


def test_sessions_search_is_over_names_and_content_and_index_is_its_care(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("shed", task="Paint it") as s:
            s.append({"role": "user", "content": "Which colour did Ada want?"})
        assert rl.admin.index() == 0
        (hit,) = rl.sessions.search('"did ada" col*').hits
        assert (hit.ref, hit.session, hit.kind, hit.text) == ("shed@2", s.id, "message", "Which colour did Ada want?")
        assert [(hit.ref, hit.seq) for hit in rl.sessions.search("paint").hits] == [("shed", None)]


def test_admin_copy_into_another_store(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("shed") as s:
            s.append({"role": "user", "content": "one"})
        done = rl.admin.copy(str(tmp_path / "other.db"), "shed")
        assert done.ok and (done.copied, done.verified, done.steps) == (1, 1, 3)


def test_admin_backup_is_a_store(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("shed") as s:
            s.append({"role": "user", "content": "one"})
        done = rl.admin.backup(tmp_path / "kept.db")
        assert (done.sessions, done.steps, done.files) == (1, 3, None)
    with relight.open(tmp_path / "kept.db") as there:
        assert there.history.load("shed").messages == [{"role": "user", "content": "one"}]
