"""Snapshots: which snapshots steps reference, and that a removed segment cannot be referenced any more."""

from __future__ import annotations

from typing import Final

from relight.errors import Conflict, SnapshotSwept
from relight.ports.store import Seen
from relight.testing.store_checks.trial import Check, Trial, equal, refused
from relight.values.snapshot import Snapshot


def _snapshot(name: str, *segments: str, root: str = "", pool: str = "pool") -> Snapshot:
    return Snapshot(id=f"sha256:{name}", root=root, pool=pool, segments=segments)


def segments_have_rows_until_they_are_removed(trial: Trial) -> None:
    """Segment rows are per pool; adding and removing are idempotent."""
    for pool, segment in (("a", "one"), ("a", "two"), ("b", "one"), ("a", "one")):
        trial.store.add_segment(pool, segment)
    equal(trial.store.list_segments("a"), frozenset({"one", "two"}), "two in this pool")
    equal(trial.store.list_pools(), frozenset({"a", "b"}), "two pools")
    trial.store.remove_segments("a", ["one", "never there"])
    trial.store.remove_segments("nowhere", ["one"])
    equal(trial.store.list_segments("a"), frozenset({"two"}), "one is left")
    equal(trial.store.list_segments("b"), frozenset({"one"}), "the other pool is untouched")
    trial.store.remove_segments("b", ["one"])
    equal(trial.store.list_pools(), frozenset({"a"}), "a pool without rows is none")
    equal(trial.store.list_segments("nowhere"), frozenset(), "an unknown pool has none")


def a_step_names_its_snapshots(trial: Trial) -> None:
    """A step's snapshots are in its checkpoint by root and live in their pool; other checkpoints have none."""
    for segment in ("one", "two"):
        trial.store.add_segment("pool", segment)
    session = trial.working(1)
    code, data = _snapshot("aa", "one", root="code"), _snapshot("bb", "one", "two", root="data")
    seq = trial.append(session, snapshots=(code, data)).step.seq
    trial.append(session, snapshots=(_snapshot("cc", root="code", pool="other"),))
    shown = {row.seq: row.snapshots for row in trial.store.checkpoints(session) if row.snapshots}
    expected = {seq: {"code": "sha256:aa", "data": "sha256:bb"}, seq + 1: {"code": "sha256:cc"}}
    equal(shown, expected, "each checkpoint its own")
    equal(trial.store.list_snapshots("pool"), frozenset({"sha256:aa", "sha256:bb"}), "the pool's")
    equal(trial.store.list_snapshots("other"), frozenset({"sha256:cc"}), "the other pool's")
    equal(trial.store.list_pools(), frozenset({"pool", "other"}), "both pools")


def what_was_swept_cannot_be_named(trial: Trial) -> None:
    """A step whose snapshot needs a removed segment is refused and changes nothing."""
    trial.store.add_segment("pool", "one")
    session = trial.working(1)
    taken = _snapshot("aa", "one", "two", root="code")
    trial.unchanged(session, lambda: trial.append(session, snapshots=(taken,), label="x"), SnapshotSwept)
    trial.store.add_segment("pool", "two")
    trial.append(session, snapshots=(taken,))
    trial.store.remove_segments("pool", ["one"])
    trial.unchanged(session, lambda: trial.append(session, snapshots=(taken,)), SnapshotSwept)
    equal(trial.store.find_label(session, "x"), None, "no label of a refused step")


def snapshots_go_with_their_checkpoint(trial: Trial) -> None:
    """Snapshots can be dropped from a checkpoint, whose step stays, and are deleted with their session."""
    trial.store.add_segment("pool", "one")
    session, other = trial.working(1), trial.working(1)
    seq = trial.append(session, snapshots=(_snapshot("aa", "one"), _snapshot("bb", "one", root="data"))).step.seq
    trial.append(session, snapshots=(_snapshot("cc", "one"),))
    trial.append(other, snapshots=(_snapshot("cc", "one"),))
    steps = trial.steps(session)
    equal(trial.store.drop_snapshots(session, seq), 2, "two were there")
    equal(trial.store.drop_snapshots(session, seq), 0, "none is left")
    equal(trial.steps(session), steps, "the journal is untouched")
    equal(trial.store.list_snapshots("pool"), frozenset({"sha256:cc"}), "named by two sessions still")
    trial.store.delete([session])
    equal(trial.store.list_snapshots("pool"), frozenset({"sha256:cc"}), "named by one")
    trial.store.delete([other])
    equal(trial.store.list_snapshots("pool"), frozenset(), "named by no step")


def snapshots_are_removed_only_while_unused(trial: Trial) -> None:
    """Dropping snapshots by root is refused, without effect, if a step or fork was added since the caller read."""
    trial.store.add_segment("pool", "one")
    session = trial.working(1)
    both = (_snapshot("aa", "one", root="code"), _snapshot("bb", "one", root="data"))
    seq = trial.append(session, snapshots=both).step.seq
    before = Seen(seq=seq, forks=frozenset())
    trial.append(session)
    refused(lambda: trial.store.drop_snapshots(session, seq, roots=["code"], seen=before), Conflict)
    unforked = Seen(seq=seq + 1, forks=frozenset())
    fork = trial.fork(session)
    refused(lambda: trial.store.drop_snapshots(session, seq, roots=["code"], seen=unforked), Conflict)
    equal(trial.store.list_snapshots("pool"), frozenset({"sha256:aa", "sha256:bb"}), "nothing is gone")
    seen = Seen(seq=seq + 1, forks=frozenset({fork}))
    equal(trial.store.drop_snapshots(session, seq, roots=["code", "none"], seen=seen), 1, "one root's")
    equal(trial.store.list_snapshots("pool"), frozenset({"sha256:bb"}), "the other root's stays")
    equal(trial.store.drop_snapshots(session, seq, roots=[], seen=seen), 0, "of no root")


CHECKS: Final[tuple[Check, ...]] = (
    segments_have_rows_until_they_are_removed,
    a_step_names_its_snapshots,
    what_was_swept_cannot_be_named,
    snapshots_go_with_their_checkpoint,
    snapshots_are_removed_only_while_unused,
)
