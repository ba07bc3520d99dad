"""Bundles: a session moves to another machine as one file, whole and proved, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from zstandard import ZstdCompressor

import relight
from relight.errors import BundleRefused, Conflict, NotFound, Refused, RelightError, UsageError
from relight.history.loading import resolve
from relight.journal.bundle import _HEAD, MAGIC, OBJECT, SIGNATURE, STEP, Frame, LabelRow, Manifest, StepRow, Writer
from relight.journal.codec import encode_changes
from relight.stores.memory import MemoryStore
from relight.testing.store_kit import run as run_kit
from relight.values.lease import Owner
from relight.values.options import ResumeOptions, RunOptions
from relight.values.session import Parent
from relight.values.snapshot import Entry, SnapshotRecord
from relight.values.step import Changes, Claim, Draft
from relight.workspaces.pool.objects import digest, encode_pages, encode_snapshot, snapshot_id
from tests.support.figures import Figure
from tests.support.programs.bombs import naming
from tests.support.shell import Shell
from tests.unit.bundles.bundles import KEY, TOKEN, Machine, dump, read, reply, user, with_manifest, with_part, write


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "there")


def bundle(machine: Machine, path: Path, ref: str = "fix", **options: Any) -> Path:
    machine.rl.history.export(ref, path, **options)
    return path


# -- round trip --------------------------------------------------------------------------------------------------------


def test_what_arrives_is_what_left(here: Machine, there: Machine, tmp_path: Path) -> None:
    session = here.session(agent="mine")
    made = there.rl.history.import_(bundle(here, tmp_path / "b"), workspace=str(there.work))
    assert (made.session, made.name, made.already_here, made.trusted) == (session, "fix", False, False)
    assert dump(there.store, "fix") == dump(here.store, "fix")
    assert there.rl.history.verify().problems == []
    assert there.rl.history.load("fix").messages == here.rl.history.load("fix").messages
    for label in ("label-0", "label-1"):
        assert there.rl.history.load(f"fix@{label}").messages == here.rl.history.load(f"fix@{label}").messages
        assert there.store.find_label(session, label) == here.store.find_label(session, label)


def test_its_files_come_back_in_another_directory(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    there.rl.history.import_(bundle(here, tmp_path / "b"), workspace=str(there.work))
    assert not there.work.exists()
    changed = {(one.what, one.path) for one in there.rl.files.diff("fix@label-0", "fix@label-1")}
    assert ("changed", "file") in changed
    there.work.mkdir()
    there.rl.files.restore("fix@label-0")
    assert (there.work / "file").read_text() == "one"
    assert (there.work / "dir-0" / "big").read_bytes() == (here.work / "dir-0" / "big").read_bytes()
    fork = there.rl.history.fork("fix@label-1", name="branch", workspace=str(tmp_path / "branch"))
    assert (tmp_path / "branch" / "file").read_text() == "two"
    assert fork.name == "branch"
    with there.rl.session("branch") as s:
        s.append(user("go on"))
    assert there.rl.history.verify().problems == []


def test_content_that_arrived_survives_a_sweep(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    there.rl.history.import_(bundle(here, tmp_path / "b"), workspace=str(there.work))
    there.rl.admin.sweep(relight.Retention(grace_seconds=0.0))
    there.work.mkdir()
    there.rl.files.restore("fix")
    assert (there.work / "file").read_text() == "two"


def test_a_fork_brings_its_ancestors_up_to_where_it_begins(here: Machine, there: Machine, tmp_path: Path) -> None:
    parent = here.session("fix", "one", "two", "three")
    here.rl.history.fork("fix@label-1", name="child")
    with here.rl.session("child", workspace=here.work) as s:
        (here.work / "file").write_text("child")
        s.append(reply("child"))
    here.rl.history.fork("child@2", name="grandchild")  # of a step that lies in the grandparent
    with here.rl.session("grandchild", workspace=here.work) as s:
        s.append(reply("grandchild"))
    for name in ("child", "grandchild"):
        other = Machine(tmp_path / f"to-{name}")
        other.rl.history.import_(bundle(here, tmp_path / name, name), workspace=str(other.work))
        assert other.rl.history.verify().problems == []
        assert other.rl.history.load(name).messages == here.rl.history.load(name).messages
        assert dump(other.store, name) == dump(here.store, name)
        record = other.store.find(parent)
        assert record is not None
        assert record.head is not None
        assert (record.identity.name, record.head.status) == (None, "archived")
    there.rl.history.import_(tmp_path / "child", workspace=str(there.work))
    held = here.store.find(parent)
    assert held is not None
    assert held.head is not None
    arrived = there.store.find(parent)
    assert arrived is not None
    assert arrived.head is not None
    assert arrived.head.seq < held.head.seq
    assert there.rl.history.import_(tmp_path / "grandchild", workspace=str(there.work)).already_here is False
    assert there.rl.history.verify().problems == []


def test_a_fork_joins_an_ancestor_that_is_here(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    there.rl.history.import_(bundle(here, tmp_path / "parent"), workspace=str(there.work))
    here.rl.history.fork("fix@label-0", name="child")
    with here.rl.session("child") as s:
        s.append(reply("child"))
    there.rl.history.import_(bundle(here, tmp_path / "child", "child"), workspace=str(tmp_path / "elsewhere"))
    assert there.rl.history.load("child").messages == here.rl.history.load("child").messages
    assert there.rl.files.diff("child@label-0", "fix@label-1")
    assert there.rl.history.verify().problems == []


def test_a_session_without_files_needs_no_directory(here: Machine, there: Machine, tmp_path: Path) -> None:
    with here.rl.session("plain") as s:
        s.append(user("hello"))
    made = there.rl.history.import_(bundle(here, tmp_path / "b", "plain"))
    assert made.workspace == {}
    with pytest.raises(UsageError):
        Machine(tmp_path / "third").rl.history.import_(tmp_path / "b", workspace="x")


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_stay_at_home_and_the_copy_verifies(here: Machine, there: Machine, tmp_path: Path) -> None:
    store = relight.open(here.path / "relight.db").store
    with here.rl.session("leaky", task=f"use {TOKEN}") as s:
        s.append(user("hello"))
        s.append(reply("ok"))
    _plant(store, here.rl.sessions.get("leaky").id)
    assert here.rl.history.verify("leaky").problems == []
    transcript = tmp_path / "rollout.jsonl"
    transcript.write_text(json.dumps({"text": TOKEN}) + "\nplain " + TOKEN + "\n")
    written = here.rl.history.export("leaky", tmp_path / "b", attachments={"rollout": transcript})
    assert written.redacted == 1
    data = (tmp_path / "b").read_bytes()
    assert TOKEN.encode() not in data
    made = there.rl.history.import_(tmp_path / "b")
    assert made.redacted == 1
    assert there.rl.history.verify("leaky").problems == []
    assert "[redacted:github-token]" in json.dumps(there.rl.history.load("leaky").messages)
    attached = there.rl.history.attachment(tmp_path / "b", "rollout").decode()
    assert attached == '{"text":"[redacted:github-token]"}\nplain [redacted:github-token]\n'
    kept = here.rl.history.export("leaky", tmp_path / "c", redact=False)
    assert (kept.redacted, kept.secrets_left) == (0, 1)
    with pytest.raises(BundleRefused, match="another history"):
        there.rl.history.import_(tmp_path / "c")


def _plant(store: Any, session: str) -> None:
    """A step with a secret, as an older version or another program might have written it."""
    head = store.find(session).head
    owner = Owner(id="o", host="h", boot="b", pid_namespace="n", pid=1, pid_start=1)
    draft = Draft(
        kind="message",
        body=encode_changes(Changes(messages=[reply(f"the key is {TOKEN}")])),
        key=b"12345678",
        claim=Claim(owner=owner, seconds=1.0, expected_epoch=head.epoch, owner_gone=True),
        release=True,
        messages_added=1,
        turns_added=1,
    )
    store.commit(session, draft)


# -- refused -----------------------------------------------------------------------------------------------------------


def test_every_cut_and_every_flip_is_refused_and_leaves_nothing(
    here: Machine, there: Machine, tmp_path: Path, figure: Figure, sample: Callable[..., int]
) -> None:
    here.session("fix", "one")
    whole = bundle(here, tmp_path / "b", key=KEY).read_bytes()
    random, bad = Random(27), tmp_path / "bad"
    edges = [*range(40), *range(len(whole) - 200, len(whole))]
    locations = sorted(
        {*edges, *random.sample(range(len(whole)), min(len(whole), sample(600, proof=6_000, teeth=100)))}
    )
    for location in locations:
        flipped = bytearray(whole)
        flipped[location] ^= 1 << random.randrange(8)
        for data in (whole[:location], bytes(flipped)):
            bad.write_bytes(data)
            with pytest.raises(RelightError) as caught:
                there.rl.history.import_(bad, workspace=str(there.work), key=KEY)
            assert isinstance(caught.value, BundleRefused)
    bad.write_bytes(whole + b"x")
    with pytest.raises(BundleRefused):
        there.rl.history.import_(bad, workspace=str(there.work), key=KEY)
    assert there.is_untouched()
    figure("G28", f"{2 * len(locations):,} cut or flipped bundles, all refused, nothing written")
    bad.write_bytes(whole)
    assert there.rl.history.import_(bad, workspace=str(there.work), key=KEY).trusted


@pytest.mark.parametrize("names", [["../up"], ["/etc"], [".."], ["a/b"], ["main", "main"], ["a\0b"], ["x" * 200]])
def test_no_word_of_a_bundle_becomes_a_path(here: Machine, there: Machine, tmp_path: Path, names: list[str]) -> None:
    here.session("fix", "one")
    parts = read(bundle(here, tmp_path / "b"))
    roots = write(tmp_path / "roots", with_manifest(parts, roots=names))
    attached = write(tmp_path / "attached", with_manifest(parts, attachments=names))
    for path in (roots, attached):
        with pytest.raises(BundleRefused):
            there.rl.history.import_(path, workspace=str(there.work))
    assert there.is_untouched()


@pytest.mark.parametrize(
    "identity",
    [
        {"id": "../../etc"},
        {"id": ""},
        {"id": "a"},
        {"id": "x" * 300},
        {"name": "../up"},
        {"name": "a\nb"},
        {"parent": Parent(session="ffffffffffff", seq=1)},
        {"workspace": {"other": "/etc"}},
        {"created_us": 1 << 60},
        {"snapshot": "whenever"},
    ],
)
def test_a_forged_session_is_refused(here: Machine, there: Machine, tmp_path: Path, identity: dict[str, Any]) -> None:
    here.session("fix", "one")
    forged = write(tmp_path / "f", with_part(read(bundle(here, tmp_path / "b")), identity=identity))
    with pytest.raises(BundleRefused):
        there.rl.history.import_(forged, workspace=str(there.work))
    assert there.is_untouched()


@pytest.mark.parametrize("name", ["nightly", "ABCDEF0123456789ABCDEF0123456789", "abcd1234"])
def test_only_an_id_as_relight_makes_them_is_one(here: Machine, there: Machine, tmp_path: Path, name: str) -> None:
    here.session("fix", "one")
    parts = with_part(read(bundle(here, tmp_path / "b")), identity={"id": name}, head={"session": name})
    with pytest.raises(BundleRefused, match="invalid or duplicate session id"):
        there.rl.history.import_(write(tmp_path / "f", parts), workspace=str(there.work))
    assert there.is_untouched()


@pytest.mark.parametrize(
    "head",
    [{"seq": 1}, {"seq": 10**12}, {"head": 99}, {"digest": b"x" * 32}, {"updated_us": -1}, {"session": "abcdef"}],
)
def test_a_forged_head_is_refused(here: Machine, there: Machine, tmp_path: Path, head: dict[str, Any]) -> None:
    here.session("fix", "one")
    forged = write(tmp_path / "f", with_part(read(bundle(here, tmp_path / "b")), head=head))
    with pytest.raises(BundleRefused):
        there.rl.history.import_(forged, workspace=str(there.work))
    assert there.is_untouched()


def test_steps_that_were_changed_moved_or_left_out_are_refused(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    parts = read(bundle(here, tmp_path / "b"))
    steps = [one for one in parts if isinstance(one, StepRow)]
    others = [one for one in parts if not isinstance(one, StepRow)]
    changed = msgspec.structs.replace(steps[1], at_us=steps[1].at_us + 1)
    forgeries: list[list[Frame]] = [
        [others[0], steps[0], changed, *steps[2:], *others[1:]],
        [others[0], *steps[:-1], *others[1:]],
        [others[0], *steps[1:], *others[1:]],
        [others[0], steps[1], steps[0], *steps[2:], *others[1:]],
        [others[0], *steps, steps[-1], *others[1:]],
        [others[0], msgspec.structs.replace(steps[0], part=7), *steps[1:], *others[1:]],
        [others[0], msgspec.structs.replace(steps[0], snapshots=[(9, "sha256:" + "0" * 64)]), *steps[1:], *others[1:]],
        [others[0], msgspec.structs.replace(steps[0], snapshots=[(0, "../../etc")]), *steps[1:], *others[1:]],
        [*parts, LabelRow(0, 99, "late")],
        [*parts, LabelRow(5, 1, "late")],
        [*parts, LabelRow(0, 1, "../x")],
        [*parts, others[0]],
        [*parts, (9, b"object of no root")],
        [*steps],
    ]
    for number, forgery in enumerate(forgeries):
        with pytest.raises(BundleRefused):
            there.rl.history.import_(write(tmp_path / f"f{number}", forgery), workspace=str(there.work))
    assert there.is_untouched()


def test_files_that_are_not_whole_are_refused(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    parts = read(bundle(here, tmp_path / "b"))
    objects = [one for one in parts if isinstance(one, tuple)]
    assert len(objects) > 3
    for number, lost in enumerate(objects):
        forged = write(tmp_path / f"f{number}", [one for one in parts if one is not lost])
        with pytest.raises(BundleRefused, match="not whole"):
            there.rl.history.import_(forged, workspace=str(there.work))
        assert not there.store.count_sessions()
    there.rl.history.import_(tmp_path / "b", workspace=str(there.work))


@pytest.mark.parametrize("name", [b"..", b"a/b", b".git", b"", b"a\0b", b"x" * 300])
def test_a_forged_tree_is_refused(here: Machine, there: Machine, tmp_path: Path, name: bytes) -> None:
    """The snapshot's own record fits its hash, and names a file outside of the directory."""
    here.session("fix", "one")
    parts = read(bundle(here, tmp_path / "b"))
    content = b"evil"
    ((_, page),) = encode_pages([Entry(name=name, kind="file", mode=0o644, ref=digest(content), size_bytes=4)])
    record = encode_snapshot(SnapshotRecord(tree=digest(page), mode=0o755, files=1, size_bytes=4, skipped=0))
    forged = naming(parts, snapshot_id(digest(record)), session="0" * 32, name="forged")
    path = write(tmp_path / "f", [*forged, (0, content), (0, page), (0, record)])
    with pytest.raises(BundleRefused, match="not whole"):
        there.rl.history.import_(path, workspace=str(there.work))
    assert not there.store.count_sessions()
    assert not there.work.exists()


def test_bombs_stay_small(here: Machine, tmp_path: Path, figure: Figure) -> None:
    """Each in a process of its own, whose memory is measured."""
    here.session("fix", "one")
    for name, path in _bombs(tmp_path, read(bundle(here, tmp_path / "b"))).items():
        code = (
            "import sys, relight\n"
            "from tests.support.processes import peak_megabytes\n"
            "rl = relight.open(sys.argv[1])\n"
            "try: rl.history.import_(sys.argv[2], workspace=sys.argv[3]); print('taken')\n"
            "except relight.RelightError as error: print(type(error).__name__)\n"
            "print(peak_megabytes())\n"
        )
        words = [sys.executable, "-c", code, str(tmp_path / f"{name}.db"), str(path), str(tmp_path / "w")]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr
        outcome, megabytes = ran.stdout.split()
        assert outcome == "BundleRefused", name
        assert int(megabytes) < 256, (name, megabytes)
        figure("G27", f"bundle bomb '{name}' ({path.stat().st_size:,} bytes): refused at {megabytes} MB")


def _bombs(tmp_path: Path, parts: list[Any]) -> dict[str, Path]:
    def framed(kind: bytes, stored: bytes, raw: int, length: int | None = None) -> bytes:
        return _HEAD.pack(kind, len(stored) if length is None else length, raw, sha256(stored).digest()) + stored

    beginning = write(tmp_path / "m", [one for one in parts if isinstance(one, Manifest)]).read_bytes()
    beginning = beginning[: len(MAGIC) + _HEAD.size + int.from_bytes(beginning[len(MAGIC) + 1 : len(MAGIC) + 9], "big")]
    huge = ZstdCompressor(level=1).compress(bytes(1 << 30))
    bombs = {
        "huge object": framed(OBJECT, huge, 16 * 1024 * 1024),
        "declared huge": framed(OBJECT, huge, (1 << 32) - 1),
        "length beyond the file": framed(STEP, b"x", 0, length=200 * 1024 * 1024),
        "length of a planet": framed(STEP, b"x", 0, length=1 << 63),
    }
    made = {}
    for name, data in bombs.items():
        made[name] = tmp_path / name.replace(" ", "-")
        made[name].write_bytes(beginning + data)
    row = next(one for one in parts if isinstance(one, StepRow))
    many = 8 * 1024 * 1024
    nested = b"\x01\x00\x81\xa8messages\xdd" + many.to_bytes(4, "big") + b"\x90" * many
    steps = [msgspec.structs.replace(one, body=nested) if one is row else one for one in parts]
    made["millions of lists"] = write(tmp_path / "lists", steps)
    labels = [LabelRow(0, 1, "again") for _ in range(100_001)]
    made["labels without end"] = write(tmp_path / "labels", [*parts, *labels])
    return made


# -- who is met --------------------------------------------------------------------------------------------------------


def test_the_same_session_twice_is_told_and_not_written(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    bundle(here, tmp_path / "b", key=KEY)
    there.rl.history.import_(tmp_path / "b", workspace=str(there.work), key=KEY)
    before = dump(there.store, "fix")
    assert there.rl.history.import_(tmp_path / "b", workspace=str(there.work), key=KEY).already_here
    there.work.mkdir()
    with there.rl.session("fix") as s:
        s.append(user("and on"))
    assert there.rl.history.import_(tmp_path / "b", workspace=str(there.work), key=KEY).already_here
    assert dump(there.store, "fix")["steps"][: len(before["steps"])] == before["steps"]
    assert here.rl.history.import_(tmp_path / "b", workspace=str(there.work), key=KEY).already_here


def test_another_history_under_the_same_id_is_refused(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    there.rl.history.import_(bundle(here, tmp_path / "b", key=KEY), workspace=str(there.work), key=KEY)
    there.work.mkdir()
    for machine in (here, there):
        with machine.rl.session("fix") as s:
            s.append(user(f"only on {machine.path.name}"))
    before = dump(there.store, "fix")
    with pytest.raises(BundleRefused, match="another history"):
        there.rl.history.import_(bundle(here, tmp_path / "c", key=KEY), workspace=str(there.work), key=KEY)
    assert dump(there.store, "fix") == before


def test_a_name_that_is_taken_is_never_taken_away(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    there.session("fix", "theirs")
    own = there.rl.sessions.get("fix").id
    made = there.rl.history.import_(bundle(here, tmp_path / "b"), workspace=str(tmp_path / "w"))
    assert made.name == "fix-2"
    assert there.rl.sessions.get("fix").id == own
    third = Machine(tmp_path / "third")
    third.session("mine")
    with pytest.raises(Conflict):
        third.rl.history.import_(tmp_path / "b", workspace=str(tmp_path / "w"), name="mine")
    assert third.rl.history.import_(tmp_path / "b", workspace=str(tmp_path / "w"), name="yours").name == "yours"


def test_an_import_that_dies_leaves_nothing_to_see(
    here: Machine, there: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.session()
    bundle(here, tmp_path / "b")
    adopt = there.store.import_sessions
    for dies in ("in the steps", "in the labels"):

        def cut(given: Any, where: str, dies: str = dies) -> Any:
            for number, one in enumerate(given):
                if where == dies and number == 1:
                    raise KeyboardInterrupt
                yield one

        def adopt_some(records: Any, steps: Any, labels: Any, cut: Any = cut) -> None:
            adopt(records, cut(steps, "in the steps"), cut(labels, "in the labels"))

        with monkeypatch.context() as patch:
            patch.setattr(there.store, "import_sessions", adopt_some)
            with pytest.raises(KeyboardInterrupt):
                there.rl.history.import_(tmp_path / "b", workspace=str(there.work))
        assert not there.store.count_sessions()
        assert there.rl.history.verify().problems == []
    there.rl.admin.sweep(relight.Retention(grace_seconds=0.0))
    there.rl.history.import_(tmp_path / "b", workspace=str(there.work))
    assert dump(there.store, "fix") == dump(here.store, "fix")


@pytest.mark.parametrize("moment", ["snapshot.segment_rowed", "snapshot.segment_written", "snapshot.segment_synced"])
def test_an_import_that_is_killed_leaves_nothing_to_see(
    here: Machine, there: Machine, tmp_path: Path, moment: str
) -> None:
    here.session()
    words = ["import", str(bundle(here, tmp_path / "b")), "--workspace", str(there.work)]
    shell = Shell(there.path / "relight.db", tmp_path)
    assert shell.run(*words, RELIGHT_FAULT=f"{moment}:1:kill").returncode == -9
    assert not there.store.count_sessions()
    assert shell.run(*words).returncode == 0
    assert dump(there.store, "fix") == dump(here.store, "fix")
    assert there.rl.history.verify().problems == []


def test_every_store_takes_sessions_in_as_they_are(here: Machine, tmp_path: Path) -> None:
    with here.rl.session("plain") as s:
        s.append(user("hello"))
        s.checkpoint("green")
    with relight.open("memory:") as rl:
        rl.history.import_(bundle(here, tmp_path / "b", "plain"))
        assert dump(rl.store, "plain") == dump(here.store, "plain")
        assert rl.history.verify().problems == []


# -- trust -------------------------------------------------------------------------------------------------------------


PROGRAM = """
import pathlib, relight
pathlib.Path("ran").write_text("ran")
with relight.open() as rl, rl.session("job") as s:
    s.append({"role": "assistant", "content": "working"})
    s.complete("done")
"""
COMMAND = [sys.executable, "-c", PROGRAM]


def _launched(machine: Machine) -> None:
    """A session that relight started itself, and that is completed."""
    machine.work.mkdir()
    (machine.work / "file").write_text("made")
    where = str(machine.work)
    machine.rl.runs.create(COMMAND, RunOptions(directory=where, agent="command", name="job", workspace={"main": where}))
    assert machine.rl.runs.supervise("job").run().session.status == "completed"


def test_an_untrusted_session_starts_nothing(here: Machine, there: Machine, tmp_path: Path) -> None:
    _launched(here)
    session = resolve(here.rl.store, "job").identity.id
    here.rl.store.update(session, lambda now: msgspec.structs.replace(now, commands={"codex": ["x"]}))
    with pytest.raises(UsageError, match="a directory for them is required"):
        there.rl.history.import_(bundle(here, tmp_path / "b", "job", key=KEY))
    made = there.rl.history.import_(tmp_path / "b", workspace=str(there.work))
    info = there.rl.sessions.get("job")
    assert not made.trusted and made.signed_by is not None
    assert info.labels["imported"] == "untrusted"
    assert info.command is None
    assert info.metadata["imported"]["command"] == COMMAND
    with pytest.raises(Refused):
        there.rl.runs.supervise("job", ResumeOptions(prompt="again", restore=True))
    assert resolve(there.rl.store, "job").identity.commands == {}
    assert not there.work.exists()
    trusted = there.rl.history.import_(tmp_path / "b", workspace=str(there.work), key=KEY)
    assert (trusted.already_here, trusted.trusted) == (True, True)
    assert there.rl.sessions.get("job").labels["imported"] == "trusted"
    assert there.rl.sessions.get("job").command == COMMAND


def test_a_trusted_session_goes_on_in_another_directory(here: Machine, there: Machine, tmp_path: Path) -> None:
    _launched(here)
    made = there.rl.history.import_(bundle(here, tmp_path / "b", "job", key=KEY), workspace=str(there.work), key=KEY)
    assert made.trusted
    resumed = there.rl.runs.resume("job", ResumeOptions(prompt="again", restore=True))
    assert resumed.ended.session.status == "completed"
    assert (there.work / "file").read_text() == "made"
    assert (there.work / "ran").exists()


@pytest.mark.parametrize("key", [b"another key of some length", KEY[:-1] + b"x"])
def test_a_key_that_does_not_fit_is_a_refusal(here: Machine, there: Machine, tmp_path: Path, key: bytes) -> None:
    here.session()
    signed, unsigned = bundle(here, tmp_path / "s", key=KEY), bundle(here, tmp_path / "u")
    for path, why in ((signed, "another key"), (unsigned, "not signed")):
        with pytest.raises(BundleRefused, match=why):
            there.rl.history.import_(path, workspace=str(there.work), key=key)
    assert there.is_untouched()


def test_a_forged_signature_is_refused(here: Machine, there: Machine, tmp_path: Path) -> None:
    here.session()
    parts = read(bundle(here, tmp_path / "b", key=KEY))
    signature = read(tmp_path / "b")[-1]
    forged = write(tmp_path / "f", with_part(parts, identity={"task": "another task"})).read_bytes()
    with (tmp_path / "g").open("wb") as file:
        writer = Writer(file)
        file.seek(0)
        file.write(forged)
        writer._frame(SIGNATURE, msgspec.msgpack.encode(signature))
    with pytest.raises(BundleRefused, match="forged"):
        there.rl.history.import_(tmp_path / "g", workspace=str(there.work), key=KEY)
    assert there.is_untouched()


# -- exporting ---------------------------------------------------------------------------------------------------------


def test_an_export_replaces_nothing_and_leaves_no_half_file(here: Machine, tmp_path: Path) -> None:
    here.session()
    (tmp_path / "b").write_text("mine")
    with pytest.raises(Refused):
        here.rl.history.export("fix", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "mine"
    with pytest.raises(NotFound):
        here.rl.history.export("fix", tmp_path / "c", attachments={"t": tmp_path / "missing"})
    with pytest.raises(UsageError):
        here.rl.history.export("fix@2", tmp_path / "c")
    with pytest.raises(UsageError):
        here.rl.history.export("fix", tmp_path / "c", key=b"short")
    with pytest.raises(RelightError):
        here.rl.history.export("fix", tmp_path / "no" / "such" / "directory")
    assert {one.name for one in tmp_path.iterdir()} == {"b", "here"}
    here.rl.history.export("fix", tmp_path / "c")
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


def test_an_attachment_travels(here: Machine, tmp_path: Path) -> None:
    here.session()
    native = tmp_path / "native.jsonl"
    native.write_bytes(b'{"a": "%s"}\n' % (b"long line " * 5_000) * 50 + b"\xff\xfe\n")
    here.rl.history.export("fix", tmp_path / "b", attachments={"native.jsonl": native})
    assert here.rl.history.attachment(tmp_path / "b", "native.jsonl") == native.read_bytes()
    with pytest.raises(NotFound):
        here.rl.history.attachment(tmp_path / "b", "other")


def test_what_is_no_bundle_is_refused(there: Machine, tmp_path: Path) -> None:
    for number, data in enumerate((b"", b"x", b"PK\3\4" + bytes(100), b"relight bundle 2\n" + bytes(100))):
        (tmp_path / str(number)).write_bytes(data)
        with pytest.raises(BundleRefused):
            there.rl.history.import_(tmp_path / str(number))
    with pytest.raises(NotFound):
        there.rl.history.import_(tmp_path / "nothing")
    with pytest.raises(NotFound):
        there.rl.history.import_(tmp_path)


def test_the_public_kit_holds_stores_to_it() -> None:
    assert "imported_whole_or_not_at_all" in {one.check for one in run_kit(MemoryStore).outcomes}
