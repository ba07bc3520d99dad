"""A store and bundles that relight 0.1.0 wrote are read, verified, continued and imported by this version.

tests/data/store-0.1.0.tar.xz was made once by that version: a completed session with a tool call, an effect and state,
a fork and its parent, a rewound session, one that waits for an answer, one killed inside a `once` tool, one with two
captures of a workspace, an archived one; and two of them as bundles.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from tests.support.shell import Shell

ARCHIVE = Path(__file__).resolve().parent.parent / "data/store-0.1.0.tar.xz"
STATUSES = {
    "plain": "completed",
    "open": "terminated",
    "forked": "terminated",
    "rewound": "terminated",
    "asks": "waiting",
    "files": "terminated",
    "doubt": "terminated",
    "gone": "archived",
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "kept", filter="data")
    return tmp_path / "kept/r.db"


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def texts(messages: list[dict[str, object]]) -> list[object]:
    return [one["content"] for one in messages]


def test_every_session_is_listed_and_every_digest_holds(store: Path) -> None:
    with relight.open(store) as rl:
        assert {one.name: one.status for one in rl.sessions.list()} == STATUSES
        assert rl.history.verify().problems == []
        loaded = rl.history.load("plain")
        assert (loaded.state, loaded.result) == ({"count": 3}, "Ada knows.")
        assert rl.sessions.get("plain").usage.tokens == 15
        assert texts(rl.history.load("rewound").messages) == ["0", "1", "after"]
        assert texts(rl.history.load("forked").messages) == ["hello", "other"]
        assert [hit.ref for hit in rl.sessions.search('"Tell Ada"').hits][-1:] == ["plain@2"]
        assert rl.admin.migrate() == 0, "the whole of it is indexed, in pieces"
        assert [hit.ref for hit in rl.sessions.search('"Tell Ada"').hits][-1:] == ["plain@2"]
        assert rl.history.load("plain@asked").messages == [user("Tell Ada")]


def test_every_session_that_may_go_on_does(store: Path) -> None:
    with relight.open(store) as rl:
        for name in ("open", "forked", "rewound", "doubt"):
            with rl.session(name) as s:
                s.append(user("and now?"))
            assert rl.history.load(name).messages[-1] == user("and now?")
        rl.runs.send("asks", "yes")
        with rl.session("asks") as s:
            assert s.ask("Deploy?") == "yes"
        assert rl.history.verify().problems == []


def test_what_ran_is_not_run_again_and_a_doubt_stays_one(store: Path) -> None:
    ran: list[str] = []

    def effect(name: str) -> Callable[[], object]:
        return lambda: ran.append(name)

    with relight.open(store) as rl:
        rl.history.rewind("plain@asked")
        with rl.session("plain") as s:
            assert s.once("pay", effect("pay")) == "receipt 1"
        assert [call.id for call in rl.runs.plan("doubt").in_doubt] == ["c1"]
        with rl.session("doubt") as s:
            assert [call.id for call in s.calls() if call.in_doubt] == ["c1"]
    assert ran == []


def test_files_come_back_in_a_directory_of_ones_own(store: Path, tmp_path: Path) -> None:
    shell, own = Shell(store, tmp_path), tmp_path / "own"
    made = shell.run("fork", "files@one", "--name", "again", "--workspace", str(own))
    assert made.returncode == 0, made.stderr
    with relight.open(store) as rl, rl.session("again"):
        assert (own / "a.txt").read_text() == "one\n"
        assert (own / "d/b.bin").read_bytes() == bytes(range(256)) * 40
        assert not (own / "d/c.txt").exists()


def test_its_bundles_are_imported_and_go_on(store: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "other.db", tmp_path)
    for name, where in (("plain", ()), ("files", ("--workspace", str(tmp_path / "taken")))):
        taken = shell.run("import", str(store.parent / f"{name}.relight"), *where)
        assert taken.returncode == 0, taken.stderr
    with relight.open(tmp_path / "other.db") as rl:
        assert rl.history.verify().problems == []
        assert texts(rl.history.load("plain").messages)[-1] == "Ada knows."
    own = tmp_path / "own"
    made = shell.run("fork", "files@two", "--name", "again", "--workspace", str(own))
    assert made.returncode == 0, made.stderr
    with relight.open(tmp_path / "other.db") as rl, rl.session("again") as s:
        s.append(user("and now?"))
        assert (own / "a.txt").read_text() == "two\n"
