"""`rl.sessions.search(text)`, `rl.admin.migrate`, `rl.admin.copy`, `rl.admin.backup`: the rows of the surface."""

from __future__ import annotations

from pathlib import Path

import relight


def test_sessions_search_is_over_names_and_content_and_index_is_its_care(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("shed", task="Paint it") as s:
            s.append({"role": "user", "content": "Which colour did Ada want?"})
        assert rl.admin.migrate() == 0
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


def test_history_compare_says_where_two_forks_part(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("shed") as s:
            s.append({"role": "user", "content": "one"})
            s.append({"role": "assistant", "content": "two"}, {"output_tokens": 3})
        rl.history.fork("shed@2", name="other")
        with rl.session("other") as s:
            s.append({"role": "assistant", "content": "three"})
            s.complete("done")
        found = rl.history.compare("shed", "other")
        assert (found.common, found.is_same) == (1, False)
        assert [side.messages[0]["content"] for side in (found.a, found.b)] == ["two", "three"]
        assert (found.a.session.name, found.a.usage.output_tokens, found.b.result) == ("shed", 3, "done")
        assert rl.history.compare("shed", "shed").is_same


def test_admin_health_is_one_value(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("shed") as s:
            s.append({"role": "user", "content": "one"})
        found = rl.admin.health()
        assert (found.store.kind, found.sessions, found.is_writable) == ("sqlite", {"terminated": 1}, True)
        assert found.unindexed and rl.admin.migrate() == 0 and rl.admin.health().unindexed == 0
        assert (found.needs_you, found.retention.finished_days) == (1, None)
