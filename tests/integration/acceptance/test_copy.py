"""`relight copy`: sessions of any store, with what they depend on and their files, once and verified."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.bundles import copying
from relight.journal import chain
from tests.integration.acceptance.conftest import Addresses

KINDS = ("sqlite", "postgres", "redis")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def fill(rl: relight.Relight, directory: Path) -> None:
    """A session with files, a fork of it, a fork of that, and one that is plain."""
    directory.mkdir()
    with rl.session("root", workspace=directory, task="Paint the shed") as s:
        (directory / "a.txt").write_text("first")
        target = s.append(user("one"))
        s.checkpoint("green")
        (directory / "a.txt").write_text("second")
        s.append(user("two"))
    rl.history.fork(f"root@{target.seq}", name="fork", workspace=str(directory.with_name("fork")))
    with rl.session("fork") as s:
        s.append(user("three"))
    rl.history.fork("fork", name="twig", workspace=str(directory.with_name("twig")))
    with rl.session("plain", labels={"team": "blue"}) as s:
        s.append(user("four"))
        s.complete("done")


def heads(rl: relight.Relight) -> dict[str, tuple[int, bytes]]:
    found = {}
    for info in rl.sessions.list():
        record = rl.store.find(info.id)
        assert record is not None and record.head is not None
        found[info.title] = (record.head.seq, record.head.digest)
    return found


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")])
def test_every_session_is_in_the_other_store_as_it_was_and_nothing_twice(
    kind: str, other: str, address_of: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_HOME", str(tmp_path / "home"))
    destination = address_of(other, tmp_path / "other")
    with relight.open(address_of(kind, tmp_path / "one")) as rl:
        fill(rl, tmp_path / "shop")
        before = heads(rl)
        done = rl.admin.copy(destination)
        assert (done.ok, done.copied, done.verified, done.present) == (True, 4, 4, 0), done
        again = rl.admin.copy(destination)
        assert (again.ok, again.copied, again.steps, again.present) == (True, 0, 0, 4)
        assert heads(rl) == before, "the source is untouched"
        with relight.open(destination) as there:
            assert heads(there) == before and there.history.verify().problems == []
            assert there.history.load("root@green").messages == [user("one")]
            assert (
                there.sessions.get("plain").labels == {"team": "blue"} and there.history.load("plain").result == "done"
            )
            assert there.files.read("root@green", "a.txt") == b"first"


def test_forks_come_after_what_they_depend_on_in_whatever_order_they_are_named(tmp_path: Path) -> None:
    with relight.open(tmp_path / "one.db") as rl:
        fill(rl, tmp_path / "shop")
        for number, refs in enumerate(itertools.permutations(("root", "fork", "twig"))):
            done = rl.admin.copy(str(tmp_path / f"{number}.db"), *refs)
            assert (done.ok, done.copied) == (True, 3)
        assert rl.admin.copy(str(tmp_path / "alone.db"), "twig").copied == 3, "with all that it depends on"


def test_a_copy_that_was_cut_off_continues(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(what: str, number: int, total: int) -> None:
        if number == 2:
            raise Killed

    destination = str(tmp_path / "two.db")
    with relight.open(tmp_path / "one.db") as rl:
        fill(rl, tmp_path / "shop")
        with pytest.raises(Killed):
            rl.admin.copy(destination, progress=kill)
        done = rl.admin.copy(destination)
        assert (done.ok, done.copied, done.present) == (True, 2, 2)


def test_what_goes_on_in_the_source_is_copied_again_and_what_went_on_in_the_destination_stays(tmp_path: Path) -> None:
    destination = str(tmp_path / "two.db")
    with relight.open(tmp_path / "one.db") as rl:
        fill(rl, tmp_path / "shop")
        with rl.session("live") as s:
            s.append(user("running"))
            done = rl.admin.copy(destination)
            assert done.ok and done.running == ["live"]
        with rl.session("root") as s:
            s.append(user("later"))
        again = rl.admin.copy(destination)
        assert (again.ok, again.running, again.present) == (True, [], 1), "the forks of root are written again with it"
        with relight.open(destination) as there:
            assert heads(there) == heads(rl)
            with there.session("plain2") as s:
                s.append(user("its own"))
            with there.session("live") as s:
                s.append(user("went on there"))
        last = rl.admin.copy(destination)
        assert (
            not last.ok
            and [one.name for one in last.refused] == ["live"]
            and "continued in the destination" in last.refused[0].why
        )
        with relight.open(destination) as there:
            assert (
                there.history.load("live").messages[-1] == user("went on there")
                and there.sessions.find("plain2") is not None
            )


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")])
def test_one_session_that_went_on_is_copied_again_and_costs_the_destination_no_other(
    kind: str, other: str, address_of: Addresses, tmp_path: Path
) -> None:
    destination = address_of(other, tmp_path / "two")
    with relight.open(address_of(kind, tmp_path / "one")) as rl:
        with rl.session("root") as s:
            s.append(user("one"))
            with s.spawn("kid") as kid:
                kid.append(user("sub-task"))
        rl.history.fork("root@2", name="fork")
        rl.history.fork("root.kid", name="twig")
        assert rl.admin.copy(destination).copied == 4
        with rl.session("root") as s:
            s.append(user("later"))
        done = rl.admin.copy(destination, "root")
        assert (done.ok, done.copied, done.verified) == (True, 4, 4), "what depends on it is written again with it"
        with relight.open(destination) as there:
            assert heads(there) == heads(rl) and there.history.verify().problems == []


def test_a_session_that_is_there_is_not_said_to_be_missing_because_its_parent_was_refused(tmp_path: Path) -> None:
    destination = str(tmp_path / "two.db")
    with relight.open(tmp_path / "one.db") as rl:
        with rl.session("root") as s:
            s.append(user("one"))
        rl.history.fork("root@2", name="same")
        rl.history.fork("root@2", name="behind")
        rl.admin.copy(destination)
        for name in ("root", "behind"):
            with rl.session(name) as s:
                s.append(user("here"))
        with relight.open(destination) as there, there.session("root") as s:
            s.append(user("there"))
        done = rl.admin.copy(destination)
        assert (sorted(str(one.name) for one in done.refused), done.present) == (["behind", "root"], 1)
        assert {one.why for one in done.refused if one.name == "behind"} == {
            "root, which it depends on, was not copied"
        }


def test_a_damaged_step_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with relight.open(tmp_path / "one.db") as rl:
        with rl.session("good") as s:
            s.append(user("whole"))
        with rl.session("bad") as s:
            s.append(user("broken"))
        bad = rl.sessions.get("bad").id
        real = chain.step_digest
        monkeypatch.setattr(copying, "step_digest", lambda d, step: b"" if step.session == bad else real(d, step))
        done = rl.admin.copy(str(tmp_path / "two.db"))
        assert (done.copied, [one.name for one in done.refused]) == (1, ["bad"])
        with relight.open(tmp_path / "two.db") as there:
            assert [one.name for one in there.sessions.list()] == ["good"]
