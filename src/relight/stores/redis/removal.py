"""Deletion that leaves no byte: every key of the sessions in one transaction, then the server rewrites its files.

The append-only file records a deletion, and keeps the deleted values until it is rewritten. So we ask for a rewrite and
wait for it, and for a dump if the server makes dumps. If the user is not allowed to ask, that is reported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from relight.errors import Conflict, Corrupt, StoreUnavailable
from relight.stores.redis.commits import MAX_ATTEMPTS, Journal
from relight.stores.redis.keys import Keys, split_member
from relight.stores.redis.server import Command, Forbidden, Server
from relight.stores.redis.sessions import Sessions
from relight.stores.redis.snapshots import Snapshots

REWRITE_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.01
_REFERRING: Final = (("fork", "parent"), ("child", "spawned_by"))


class Removal:
    """Deletes sessions of one store. Stateless."""

    def __init__(
        self,
        server: Server,
        keys: Keys,
        journal: Journal,
        sessions: Sessions,
        snapshots: Snapshots,
        tell: Callable[[str], None],
    ) -> None:
        self._server = server
        self._keys = keys
        self._journal = journal
        self._sessions = sessions
        self._snapshots = snapshots
        self._tell = tell

    def delete(self, sessions: Sequence[str], epochs: Mapping[str, int]) -> None:
        """Delete all of these sessions, or raise Conflict and delete none."""
        going = sorted(set(sessions))
        for _ in range(MAX_ATTEMPTS):
            checks, commands = self._delete_commands(going, epochs)
            if not commands:
                return
            reply = self._server.transact(checks, [*commands, ("INCR", self._keys.changes)])
            if not reply.failed:
                for session in going:
                    self._journal.forget(session)
                self._snapshots.tidy(set(self._snapshots.names()) - self._snapshots.pools())
                self._wipe()
                return
        raise StoreUnavailable("the sessions keep changing under concurrent writes; nothing was deleted")

    def _delete_commands(self, going: Sequence[str], epochs: Mapping[str, int]) -> tuple[list[Command], list[Command]]:
        found = {session: self._sessions.removal_commands(session) for session in going}
        there = {session: commands for session, commands in found.items() if commands is not None}
        indexes = {(what, session): self._keys.by(field, session) for what, field in _REFERRING for session in going}
        members = self._server.execute_all([("ZRANGE", index, 0, -1) for index in indexes.values()])
        for session in epochs.keys() & found.keys() - there.keys():
            raise Conflict(f"{session}: it was removed meanwhile")
        for session, (_, _, head) in there.items():
            if session in epochs and head is None:
                raise Corrupt("its head fails its seal", session=session)
            if session in epochs and head is not None and head.epoch != epochs[session]:
                raise Conflict(f"{session}: it was claimed meanwhile")
        needing = sorted(
            (split_member(member)[1], what, session)
            for (what, session), referring in zip(indexes, members, strict=True)
            for member in referring
        )
        for id_, what, session in needing:
            if id_ not in found:
                raise Conflict(f"{session}: the {what} {id_} needs it")
        checks = [check for own, _, _ in there.values() for check in own]
        checks += [("within", index, *referring) for index, referring in zip(indexes.values(), members, strict=True)]
        return checks, [command for _, own, _ in there.values() for command in own]

    # -- the server's files -------------------------------------------------------------------------------------

    def _wipe(self) -> None:
        persistence, save = self._server.info("persistence"), self._server.durability.save
        try:
            if persistence.get("aof_enabled") == "1":
                self._again("BGREWRITEAOF", "aof_rewrite_in_progress", "aof_rewrite_scheduled")
                if self._server.info("persistence").get("aof_last_bgrewrite_status") != "ok":
                    raise _left(self._server.shown, "the server could not rewrite its append-only file")
            if save:
                self._again("BGSAVE", "rdb_bgsave_in_progress", "rdb_bgsave_in_progress")
        except Forbidden:
            self._tell_left("which this user is not allowed to run")
        else:
            if not persistence or save is None:
                self._tell_left("and this user is not allowed to read which files it has (INFO, CONFIG GET)")

    def _tell_left(self, why: str) -> None:
        self._tell(
            f"{self._server.shown}: the sessions are deleted; their bytes stay in the server's files until it "
            f"rewrites those (BGREWRITEAOF, BGSAVE), {why}"
        )

    def _again(self, command: str, running: str, scheduled: str) -> None:
        """Start a rewrite now and wait for it; one that is already running may have begun before the deletion."""
        until = time.monotonic() + REWRITE_SECONDS
        self._wait(running, scheduled, until)
        while True:
            try:
                self._server.execute(command)
                break
            except Forbidden:
                raise
            except StoreUnavailable:  # another rewrite or dump is running: wait for it, then start ours
                self._wait(running, scheduled, until)
                if time.monotonic() >= until:
                    raise
        self._wait(running, scheduled, until)

    def _wait(self, running: str, scheduled: str, until: float) -> None:
        pause = threading.Event()
        while True:
            persistence = self._server.info("persistence")
            if persistence.get(running, "0") == "0" and persistence.get(scheduled, "0") == "0":
                return
            if time.monotonic() >= until:
                raise _left(self._server.shown, f"the server is still busy after {REWRITE_SECONDS:.0f} s")
            pause.wait(_POLL_SECONDS)


def _left(shown: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{shown}: the sessions are deleted, but some of their bytes are still in the server's files: {why}",
        hints=["have them rewritten: redis-cli BGREWRITEAOF, and redis-cli BGSAVE if it makes dumps"],
    )
