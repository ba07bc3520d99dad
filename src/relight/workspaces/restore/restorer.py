"""Restores a root by a plan: record it, clean up after an interrupted restore, execute, record that it is done.

    lock; enough space?; leftovers; record "begun" (durable); execute; record "done"

A kill before the record has changed nothing; after it the record says what was going on, and the same plan made again
continues it, with the same id and the same safety snapshot.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable

import msgspec

from relight.errors import Conflict, PathsRefused, Refused, RestoreConflict, RestoreUnfinished, StoreUnavailable
from relight.ports.faults import point
from relight.values.snapshot import RestoreOutcome, RestorePlan, RestoreRecord
from relight.workspaces.changes.scan import Stat
from relight.workspaces.manifest import Manifests
from relight.workspaces.pool.disk import free_bytes
from relight.workspaces.pool.objects import CHUNK_BYTES, digest, encode_chunks
from relight.workspaces.restore.executor import RestoreExecutor
from relight.workspaces.restore.leftovers import clear_up
from relight.workspaces.restore.name_folding import not_held
from relight.workspaces.restore.planner import is_content
from relight.workspaces.restore.restore_log import RestoreLog


class Restorer:
    """Restores the files of one root."""

    def __init__(
        self,
        name: str,
        where: str,
        root_fd: int,
        manifests: Manifests,
        log: RestoreLog,
        *,
        seen: Callable[[bytes], Stat | None],
        changed_since: Callable[[str], set[bytes]],
    ) -> None:
        """`where` names the root in messages. `seen` returns the stat of a path in the last snapshot, `changed_since`
        takes a snapshot and compares."""
        self._name, self._where, self._root_fd = name, where, root_fd
        self._manifests, self._log = manifests, log
        self._seen, self._changed_since = seen, changed_since

    def run(self, plan: RestorePlan, *, is_as_planned: bool) -> RestoreOutcome:
        """Execute a plan. `is_as_planned`: its safety snapshot is still the newest state of the disk."""
        if plan.decision.conflicts and plan.choice == "stop":
            raise RestoreConflict(self._where, [(one.path, one.reason) for one in plan.decision.conflicts])
        if plan.is_empty and not plan.undoes and self._log.unfinished() is None:
            kept = plan.decision.kept
            return RestoreOutcome(id="", target=plan.target, safety=plan.safety.id, written=0, deleted=0, kept=kept)
        self._check_room(plan)
        self._check_file_system(plan)
        record = self._begin(plan)
        saved = self._clear_up(record)
        if (saved or not is_as_planned) and not self._changed_since(plan.safety.id) <= set(saved):
            raise Conflict(f"{self._where}: changed since the restore was planned; plan again")
        executor = RestoreExecutor(self._root_fd, self._manifests, self._seen, record.id, record.actions)
        try:
            note = self._log.begin(record)
            point("restore.begun")
            executor.run(plan.decision.writes, plan.decision.deletes, first=note)
        except OSError as error:
            raise StoreUnavailable(
                f"{self._where}: the restore stopped half-way: {error}",
                hints=["do the same restore again, or undo it: relight undo REF"],
            ) from error
        point("restore.acted")
        self._log.end(record)
        point("restore.noted")
        return RestoreOutcome(
            id=record.id,
            target=plan.target,
            safety=record.safety,
            written=executor.written,
            deleted=executor.deleted,
            kept=plan.decision.kept,
            changed_meanwhile=tuple(dict.fromkeys(executor.changed)),
            saved_aside=saved,
            other_modes=len(executor.other_modes),
        )

    def _check_room(self, plan: RestorePlan) -> None:
        """Refuse before anything is written if the files do not fit on the disk."""
        grows = sum(
            max(0, one.entry.size_bytes - (one.found.size_bytes if one.found is not None else 0))
            for one in plan.decision.writes
            if one.entry is not None and one.entry.kind in ("file", "big")
        )
        free = free_bytes(self._root_fd)
        if grows > free:
            raise Refused(
                f"{self._where}: the files take {grows:,} bytes more, and {free:,} are free; nothing was changed",
                hints=["free some space, or choose a directory on another disk"],
            )

    def _check_file_system(self, plan: RestorePlan) -> None:
        """Refuse before anything is written if the file system has no symbolic links or does not allow a name."""
        if refused := not_held(self._root_fd, plan.decision.writes):
            raise PathsRefused(self._where, refused)

    def _begin(self, plan: RestorePlan) -> RestoreRecord:
        """A new record, or the one of the interrupted restore that this plan continues."""
        actions = tuple(one.path for one in (*plan.decision.writes, *plan.decision.deletes))
        unfinished = self._log.unfinished()
        if unfinished is None or unfinished.id == plan.undoes:
            return RestoreRecord(
                id=self._log.new_id(),
                state="begun",
                target=plan.target,
                safety=plan.safety.id,
                root=self._name,
                choice=plan.choice,
                exact=plan.exact,
                paths=plan.paths,
                actions=actions,
                undoes=plan.undoes,
                created_us=time.time_ns() // 1000,
            )
        if unfinished.target != plan.target or unfinished.undoes != plan.undoes:
            raise RestoreUnfinished(self._where, restore=unfinished.id, target=unfinished.target)
        both = tuple(dict.fromkeys((*unfinished.actions, *actions)))
        return msgspec.structs.replace(unfinished, choice=plan.choice, exact=plan.exact, actions=both)

    def _clear_up(self, record: RestoreRecord) -> tuple[bytes, ...]:
        """Clean up temporary files of interrupted restores: this one's and the one it undoes."""
        saved: list[bytes] = []
        for old in self._log.records():
            if old.state == "begun" and old.id in (record.id, record.undoes):
                sides = [self._manifests.record(one).tree for one in (old.target, old.safety)]
                saved += clear_up(self._root_fd, old.id, old.actions, self._is_known_content(sides))
        return tuple(saved)

    def _is_known_content(self, trees: list[bytes]) -> Callable[[bytes, int, bytes], bool]:
        def is_known(path: bytes, dir_fd: int, name: bytes) -> bool:
            entries = [self._manifests.find(tree, path) for tree in trees]
            return _content_ref(dir_fd, name) in {entry.ref for entry in entries if entry and is_content(entry)}

        return is_known


def _content_ref(dir_fd: int, name: bytes) -> bytes:
    """The hash a snapshot would have for a file or link; empty for anything else."""
    found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return os.readlink(name, dir_fd=dir_fd)
    if not stat.S_ISREG(found.st_mode):
        return b""
    chunks = []
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd), "rb") as file:
        while data := file.read(CHUNK_BYTES):
            chunks.append(digest(data))
    if found.st_size <= CHUNK_BYTES:
        return chunks[0] if chunks else digest(b"")
    return digest(encode_chunks(chunks))
