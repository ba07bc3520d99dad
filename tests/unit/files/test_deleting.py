"""Deleting a checkpoint takes its label, and of its files what nobody goes on from: all others restore as before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import relight
from relight.errors import NotFound
from relight.journal.lineage import inherited
from relight.library.facade import Relight
from relight.ports.store import CheckpointRow
from tests.support.figures import Figure
from tests.support.files_harness import FilesHarness, reply, user


def held(rl: Relight, session: str) -> dict[str, bytes]:
    """What each checkpoint of a session has in `file`; those without files are missing."""
    found = {}
    for one in rl.history.checkpoints(session):
        try:
            found[f"{session}@{one.seq}"] = rl.files.read(f"{session}@{one.seq}", "file")
        except NotFound:
            continue
    return found


def test_checkpoints_that_inherit_its_files_keep_them(harness: FilesHarness) -> None:
    rl = harness.start()
    with rl.session("d", workspace=harness.root) as s:
        harness.write("file", "first")
        s.append(user("captures"))
        s.checkpoint("L")
        for _ in range(5):
            s.append(user("nothing changed"))
    before = held(rl, "d")
    for one in rl.history.checkpoints("d"):
        forgotten = rl.history.forget(f"d@{one.seq}")
        assert forgotten.snapshots == 0
    rl.admin.sweep()
    assert held(rl, "d") == before
    harness.write("file", "elsewhere")
    rl.files.restore("d", choice="force")
    assert harness.read("file") == "first"
    with pytest.raises(NotFound):
        rl.sessions.get("d@L")


def test_what_nobody_goes_on_from_is_freed_and_said_to_be_gone(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two, three = harness.working(rl, "one" * 2000, "two" * 2000, "three" * 2000)
    forgotten = rl.history.forget(f"agent@{two}")
    assert (forgotten.snapshots, forgotten.kept) == (1, 0)
    with pytest.raises(NotFound) as reported:
        rl.files.restore(f"agent@{two}", choice="force")
    assert "deleted" in str(reported.value.evidence) and f"agent@{one}" in str(reported.value.hints)
    for seq, content in ((one, "one"), (three, "three")):
        rl.files.restore(f"agent@{seq}", choice="force")
        assert harness.read("file") == content * 2000
    assert rl.history.verify().problems == []


def test_the_head_and_the_beginning_of_forks_are_gone_on_from(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two, three = harness.working(rl, "one", "two", "three")
    fork = rl.history.fork(f"agent@{two}", name="branch")
    assert rl.history.forget(f"agent@{two}").kept == 1
    assert rl.history.forget("agent").snapshots == 0
    assert rl.files.read(f"{fork.id}", "file") == b"two"
    rl.sessions.remove("branch")
    assert rl.history.forget(f"agent@{two}").snapshots == 1
    assert rl.files.read("agent", "file") == b"three" and rl.files.read(f"agent@{one}", "file") == b"one"
    assert three > two


def test_the_beginning_of_a_fork_that_was_made_from_another_one_is_kept(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    rl.history.fork(f"agent@{two}", name="branch")
    rl.history.fork(f"branch@{one}", name="twig")
    assert rl.history.forget(f"agent@{one}").kept == 1
    rl.admin.sweep()
    assert rl.files.read("twig", "file") == b"one"
    rl.sessions.remove("twig")
    assert rl.history.forget(f"agent@{one}").snapshots == 1, "nothing begins there any more"


@pytest.mark.parametrize("through", ["branch", "twig"])
def test_the_files_of_a_fork_that_was_rewound_to_before_its_beginning_are_kept(
    harness: FilesHarness, through: str
) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    rl.history.fork(f"agent@{two}", name="branch")
    rl.history.fork(f"branch@{two}", name="twig")
    rl.history.rewind(f"{through}@{one}")
    assert rl.history.forget(f"agent@{one}").kept == 1
    rl.admin.sweep()
    assert rl.files.read(through, "file") == b"one" == rl.files.read(f"agent@{one}", "file")
    rl.history.rewind(f"{through}@{two}")
    assert rl.history.forget(f"agent@{one}").kept == 1
    rl.history.undo(through)
    assert rl.files.read(through, "file") == b"one"


def test_the_way_back_of_a_restore_is_kept(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    harness.write("file", "mine")
    rl.files.restore(f"agent@{one}", choice="force")
    for row in rl.history.checkpoints("agent"):
        if row.kind == "mark":
            rl.history.forget(f"agent@{row.seq}")
    rl.admin.sweep()
    rl.history.undo("agent")
    assert harness.read("file") == "mine"


@pytest.mark.guarantee("G18")
def test_every_other_checkpoint_restores_as_before_whatever_is_deleted(
    tmp_path: Path, figure: Figure, sample: Callable[..., int]
) -> None:
    count = 0
    for seed in range(sample(2, proof=200, teeth=3)):
        with relight.open("memory:") as rl:
            count += _delete_at_random(rl, tmp_path / str(seed), random.Random(seed))
    figure("G18", f"{count} checkpoints deleted in any order, every other one as before")


def _delete_at_random(rl: Relight, root: Path, chance: random.Random) -> int:
    root.mkdir()
    names = ["a"]
    for number in range(12):
        name = chance.choice(names)
        if chance.random() < 0.2 and number > 2:
            seq = chance.randint(2, rl.sessions.get(name).seq)
            names.append(rl.history.fork(f"{name}@{seq}", name=f"f{number}").name or "")
            continue
        if chance.random() < 0.3 and number > 2:
            rl.history.rewind(f"{name}@{chance.randint(2, rl.sessions.get(name).seq)}")
            continue
        with rl.session(name, workspace=root) as s:
            for step in range(chance.randint(1, 3)):
                if chance.random() < 0.5:
                    (root / "file").write_text(f"{number} {step}")
                s.append(reply(f"{number}"))
    deleted = 0
    for ref in chance.sample(sorted(_all(rl, names)), 8):
        before = _all(rl, names)
        made = rl.history.forget(ref).checkpoint
        rl.admin.sweep()
        after = _all(rl, names)
        lost = {one for one in before if after.get(one) != before[one]}
        assert all(_same(rl, one, made) for one in lost), (ref, lost)
        deleted += 1
    return deleted


def _all(rl: Relight, names: list[str]) -> dict[str, bytes]:
    return {ref: content for name in names for ref, content in held(rl, name).items()}


def _same(rl: Relight, ref: str, made: str) -> bool:
    """Whether a reference through a fork means the checkpoint that was deleted."""
    name, _, seq = ref.partition("@")
    return any(one.id == made for one in rl.history.checkpoints(name) if one.seq == int(seq))


def _rows(*rows: tuple[int, int, dict[str, str]]) -> Iterator[CheckpointRow]:
    for seq, base, snapshots in rows:
        yield CheckpointRow(
            seq=seq,
            kind="message",
            at_us=0,
            base=base,
            label=None,
            turns=0,
            message_count=0,
            snapshots=snapshots,
            size_bytes=0,
        )


def test_a_root_is_inherited_by_the_next_step_of_any_path_that_has_none_of_its_own() -> None:
    both = {"a": "1", "b": "2"}
    assert inherited(_rows((1, 0, both), (2, 1, {"a": "3"})), 1, has_successor=False) == {"b"}
    assert inherited(_rows((1, 0, both), (2, 1, both), (3, 2, {})), 1, has_successor=False) == frozenset()
    assert inherited(_rows((1, 0, both), (2, 1, both), (4, 1, {})), 1, has_successor=False) == {"a", "b"}
    assert inherited(_rows((1, 0, both)), 1, has_successor=True) == {"a", "b"}
    assert inherited(_rows((1, 0, {}), (2, 1, {})), 1, has_successor=True) == frozenset()
