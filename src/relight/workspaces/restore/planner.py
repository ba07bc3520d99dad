"""Plans a restore or an undo: takes the safety snapshot, collects what target, disk and history contain.

`journal.files.restore_plan` decides. This module passes it only what differs, and makes sure that the safety snapshot
contains everything the target would overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from relight.errors import NamesFold, NotFound
from relight.journal.files import restore_plan as journal
from relight.journal.files.name_folding import pairs_alike
from relight.journal.files.store_marks import HEAD_BYTES, PAGE_BYTES, database_of, is_database, may_be_database
from relight.journal.files.store_marks import is_content as is_store_content
from relight.values.snapshot import Choice, Decision, Entry, Kept, RestorePlan, RestoreRecord, Snapshot
from relight.workspaces.changes.classify import join
from relight.workspaces.manifest import Flat, Manifests
from relight.workspaces.restore.restore_log import RestoreLog
from relight.workspaces.store_detection import is_our_log


class Planner:
    """Plans restores of one root."""

    def __init__(
        self,
        where: str,
        manifests: Manifests,
        log: RestoreLog,
        snapshot: Callable[[], Snapshot],
        include: Callable[[Iterable[bytes]], None],
        as_written: Manifests | None = None,
        *,
        is_one_name: Callable[[bytes, bytes, bytes], bool],
    ) -> None:
        """`where` names the root in messages. `as_written`: the same snapshots with their original modes, if
        `manifests` removes some. `is_one_name`: would the file system take two names in a directory for one?"""
        self._where, self._manifests, self._log, self._is_one_name = where, manifests, log, is_one_name
        self._snapshot, self._include, self._as_written = snapshot, include, as_written

    def restore(
        self,
        target: str,
        *,
        last: str | None,
        history: Sequence[str],
        choice: Choice,
        exact: bool,
        paths: tuple[bytes, ...],
        take: frozenset[bytes] = frozenset(),
    ) -> RestorePlan:
        tree = self._manifests.record(target).tree
        safety = self._safety(tree)
        known = self._manifests.record(last or target).tree
        held = {tree, *(self._manifests.record(one).tree for one in history)}
        decision = self._decider(tree, safety, known, held)(choice, exact, paths, True, take)
        self._refuse_names_that_are_one(decision, self._manifests.record(safety.id).tree)
        return RestorePlan(
            target=target,
            safety=safety,
            choice=choice,
            exact=exact,
            paths=paths,
            decision=self._report_modes(tree, decision),
            left_out=tuple(self._manifests.skipped(tree)),
        )

    def _refuse_names_that_are_one(self, decision: Decision, disk: bytes) -> None:
        """Refused, before anything is written, if one new name would replace another or one that stays."""
        deleted = {one.path for one in decision.deletes}
        new: dict[bytes, list[bytes]] = {}
        for action in decision.writes:
            if action.found is None:
                parent, _, name = action.path.rpartition(b"/")
                new.setdefault(parent, []).append(name)
        alike: list[tuple[bytes, bytes]] = []
        for parent, names in new.items():
            ref = self._directory_ref(disk, parent)
            listed = self._manifests.directory(ref, parent) if ref is not None else {}
            there = [name for name in listed if join(parent, name) not in deleted]
            alike += [
                (join(parent, one), join(parent, other))
                for one, other in pairs_alike(names, there)
                if self._is_one_name(parent, one, other)
            ]
        if alike:
            raise NamesFold(alike, self._where)

    def _report_modes(self, tree: bytes, decision: Decision) -> Decision:
        """Add the paths that get another mode than the target has."""
        if self._as_written is None:
            return decision
        kept = list(decision.kept)
        for action in decision.writes:
            recorded = self._as_written.find(tree, action.path)
            if recorded is not None and action.entry is not None and recorded.mode != action.entry.mode:
                why = (
                    f"written with mode {action.entry.mode:04o} instead of {recorded.mode:04o}: it came from elsewhere"
                )
                kept.append(Kept(path=action.path, reason=why))
        return msgspec.structs.replace(decision, kept=tuple(sorted(kept, key=lambda one: one.path)))

    def undo(self, restore: str | None, *, choice: Choice) -> RestorePlan:
        record = self._to_undo(restore)
        tree, left = self._manifests.record(record.safety).tree, self._manifests.record(record.target).tree
        safety = self._safety(tree)
        decide = self._decider(tree, safety, left, {tree, left})
        decision = decide(choice, False, record.actions, False, frozenset()) if record.actions else Decision()
        self._refuse_names_that_are_one(decision, self._manifests.record(safety.id).tree)
        return RestorePlan(
            target=record.safety,
            safety=safety,
            choice=choice,
            paths=record.actions,
            decision=decision,
            undoes=record.id,
        )

    def _to_undo(self, restore: str | None) -> RestoreRecord:
        """The named restore, or one whose undo was interrupted, or the newest that was not undone."""
        records = {one.id: one for one in self._log.records()}
        interrupted = next((one.undoes for one in records.values() if one.state == "begun" and one.undoes), None)
        if restore is None and interrupted is not None and interrupted in records:
            return records[interrupted]
        if restore is None:
            restore = next((one.id for one in records.values() if one.state != "undone" and not one.undoes), None)
        found = records.get(restore or "")
        if found is None or (found.state == "undone" and found.id != interrupted):
            raise NotFound(restore or "the last restore", what="restore that can be undone")
        return found

    def _safety(self, tree: bytes) -> Snapshot:
        """A snapshot of the disk that includes everything the target would overwrite, ignored or not."""
        safety = self._snapshot()
        wanted, found = self._manifests.differing(tree, self._manifests.record(safety.id).tree)
        hidden = tuple(path for path, entry in found.items() if _is_hidden(entry) and is_content(wanted.get(path)))
        if not hidden:
            return safety
        covered = tuple(path + b"/" for path in hidden)
        self._include(
            path
            for path, entry in wanted.items()
            if entry.kind != "dir" and (path in hidden or path.startswith(covered))
        )
        return self._snapshot()

    def _decider(
        self, tree: bytes, safety: Snapshot, known: bytes, held: set[bytes]
    ) -> Callable[[Choice, bool, tuple[bytes, ...], bool, frozenset[bytes]], Decision]:
        wanted, found = self._manifests.differing(tree, self._manifests.record(safety.id).tree)
        last = self._last(known, found)
        own = self._held(held, [path for path in found if path not in wanted])
        stores = self._stores(wanted, found, self._manifests.record(safety.id).tree)

        def decide(
            choice: Choice, exact: bool, paths: tuple[bytes, ...], below: bool, take: frozenset[bytes]
        ) -> Decision:
            return journal.decide(
                target=wanted,
                current=found,
                last=last,
                held=own,
                stores=stores,
                choice=choice,
                exact=exact,
                paths=paths,
                below=below,
                take=take,
            )

        return decide

    def _stores(self, wanted: Flat, found: Flat, disk: bytes) -> set[bytes]:
        """Paths that belong to a store: on disk, or in the target, since older versions captured stores too.

        A write-ahead log must not be restored beside a database that is in use: SQLite would take it for its own.
        """
        stores = {path for path, entry in found.items() if _is_store(entry)}
        stores.update(
            path for path, entry in wanted.items() if self._is_captured_store(entry, wanted.get(path + b"-wal"))
        )
        for path in wanted:
            parent, slash, name = path.rpartition(b"/")
            database = database_of(name)
            if database is not None:
                beside = parent + slash + database
                if beside in stores or _is_store(self._manifests.find(disk, beside)):
                    stores.add(path)
        return stores

    def _is_captured_store(self, entry: Entry, log: Entry | None) -> bool:
        """Whether a captured file is a store's, by its content. Only plausible files are read: whole pages, or a
        segment."""
        pages = entry.size_bytes >= PAGE_BYTES and entry.size_bytes % PAGE_BYTES == 0
        if entry.kind not in ("file", "big") or not (pages or entry.name.endswith((b".seg", b".idx"))):
            return False
        head = next(self._manifests.content(entry), b"")[:HEAD_BYTES]
        if may_be_database(head) and log is not None and log.kind in ("file", "big"):
            first = next(self._manifests.content(log), b"")
            return is_our_log(lambda size, at: first[at : at + size])
        return is_database(head) or is_store_content(head)

    def _last(self, known: bytes, found: Flat) -> Flat:
        """The session's last known entries of the paths on disk. Modes of an interrupted restore count as its own."""
        unfinished = self._log.unfinished()
        half_done: Collection[bytes] = frozenset(unfinished.actions) if unfinished is not None else ()
        last: Flat = {}
        for path, entry in found.items():
            before = self._manifests.find(known, path)
            if path in half_done and entry.kind == "dir":
                before = entry
            if before is not None:
                last[path] = before
        return last

    def _held(self, trees: set[bytes], paths: Sequence[bytes]) -> set[bytes]:
        """Which of these paths some snapshot has: looked up by directory, since directories are shared."""
        by_parent: dict[bytes, list[bytes]] = {}
        for path in paths:
            by_parent.setdefault(path.rpartition(b"/")[0], []).append(path)
        held: set[bytes] = set()
        for parent, members in by_parent.items():
            refs = {ref for tree in trees if (ref := self._directory_ref(tree, parent)) is not None}
            for ref in refs:
                listed = self._manifests.directory(ref, parent)
                held.update(path for path in members if is_content(listed.get(path.rpartition(b"/")[2])))
        return held

    def _directory_ref(self, tree: bytes, path: bytes) -> bytes | None:
        if not path:
            return tree
        entry = self._manifests.find(tree, path)
        return entry.ref if entry is not None and entry.kind == "dir" else None


def is_content(entry: Entry | None) -> bool:
    """Whether an entry is content, rather than the record that it was left out."""
    return entry is not None and entry.kind != "skip"


def _is_store(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "skip" and entry.ref == b"store"


def _is_hidden(entry: Entry) -> bool:
    return entry.kind == "skip" and entry.ref in (b"ignored", b"secret")
