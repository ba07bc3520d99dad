"""`rl.sessions`: which sessions there are; several writers in one; put away and removed."""

from __future__ import annotations

import builtins
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relight.errors import Unresolved, UsageError
from relight.history import listing
from relight.library.noun import Noun
from relight.ports.store import Query, Record
from relight.sessions import names, opening
from relight.system.lazy_module import LazyModule
from relight.values.acknowledged import Acknowledged
from relight.values.checkpoint import Checkpoint
from relight.values.info import SessionInfo
from relight.values.session import Identity
from relight.values.status import LIVE, STATUSES, Status
from relight.values.tombstone import Tombstone

if TYPE_CHECKING:
    from relight.history import attention, queries
    from relight.history import search as searching
    from relight.operations import acknowledge as acknowledging
    from relight.operations import archive as archiving
    from relight.operations import remove as removing
    from relight.operations import retention
    from relight.sessions import shared as sharing
else:
    attention, queries, archiving = map(
        LazyModule, ("relight.history.attention", "relight.history.queries", "relight.operations.archive")
    )
    searching = LazyModule("relight.history.search")
    acknowledging = LazyModule("relight.operations.acknowledge")
    removing, retention, sharing = map(
        LazyModule, ("relight.operations.remove", "relight.operations.retention", "relight.sessions.shared")
    )


_LAST: Final = 2**63 - 1


class Sessions(Noun):
    """The sessions of a store: found, listed, archived, removed."""

    def get(self, ref: str) -> SessionInfo:
        """The session of a reference. NotFound, Ambiguous."""
        return self._info(ref)

    def find(self, ref: str) -> SessionInfo | None:
        """Like `get`, but None if no session, or more than one, matches."""
        try:
            return self._info(ref)
        except Unresolved:
            return None

    def list(
        self,
        *,
        agent: str | None = None,
        provider: str | None = None,
        status: Status | Collection[Status] | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        search: str | None = None,
        spawned_by: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        sort: str = "-created",
        before: tuple[int | float | str, str] | None = None,
        limit: int | None = None,
    ) -> Iterator[SessionInfo]:
        """Sessions, newest first, or by `sort`: created, updated, name, cost or steps, with a minus downwards; without
        a `limit`, and in a store other than SQLite, these read every session that matches. `status`, one or several, is
        the one shown: `working` with a dead owner counts as `terminated`. `spawned_by`: the children of this session.
        `since_us`, `until_us`: created from then on, and before then, in microseconds since 1970. `before`: what it is
        sorted by, and the id, of the last one seen: the next page."""
        if sort.removeprefix("-") not in listing.SORTS:
            raise UsageError(f"no such order: {sort!r}", hints=[f"one of {', '.join(listing.SORTS)}, or -NAME"])
        wanted = frozenset(STATUSES if status is None else [status] if isinstance(status, str) else status)
        if unknown := wanted - frozenset(STATUSES):
            raise UsageError(
                f"no such status: {', '.join(sorted(map(repr, unknown)))}", hints=[f"one of {', '.join(STATUSES)}"]
            )
        query = Query(
            agent=agent,
            provider=provider,
            key=key,
            labels=dict(labels or {}),
            text=search,
            spawned_by=self._found(spawned_by).identity.id if spawned_by is not None else None,
            created_since_us=since_us,
            before=(until_us, "") if until_us is not None else None,
            statuses=self._looked_up(wanted, sort) if status is not None else None,
        )
        if sort == listing.NEWEST and before is not None:
            query = msgspec.structs.replace(query, before=min((int(before[0]), before[1]), query.before or (_LAST, "")))
        if limit is not None and limit < 0:
            raise UsageError(f"limit is a number of sessions, not {limit}")
        store, is_shown = self._context.store, partial(self._shown, wanted=wanted)
        if sort == listing.NEWEST:
            records: Iterable[Record] = filter(is_shown, listing.every_session(store, query))
        else:
            records = listing.first_in_order(store, query, sort, before=before, limit=limit, is_shown=is_shown)
        for record in islice(records, limit):
            yield listing.info_of(self._context, record)

    def _looked_up(self, wanted: frozenset[Status], sort: str) -> frozenset[Status] | None:
        """The statuses that the store is asked for; None for all: where every one is read and most of them are wanted,
        merging the pages of each status takes longer than to leave out the others here."""
        store, stored = self._context.store, _stored_statuses(wanted)
        if sort == listing.NEWEST or store.info.ordered:
            return stored
        counts = store.count_sessions()
        others = sum(number for status, number in counts.items() if status not in stored)
        return None if 2 * others < sum(counts.values()) else stored

    def _shown(self, record: Record, wanted: Collection[Status]) -> bool:
        """Whether a session has one of these statuses; that of a running one depends on its owner."""
        if record.head is not None and record.head.status not in LIVE:
            return record.head.status in wanted
        return listing.info_of(self._context, record).status in wanted

    def search(
        self,
        text: str,
        *,
        session: str | None = None,
        since_us: int | None = None,
        most: int = 20,
        before: int | None = None,
        seconds: float = 2.0,
        progress: searching.Progress | None = None,
    ) -> searching.SearchResult:
        """Find words, "phrases" and beginnings* in what any session said, newest first; `session`: in one alone.

        Steps that are not in the index yet are added first, for so many `seconds`; what is not searched by then is
        reported. `before` continues a search from its `next`."""
        return searching.search(
            self._context,
            text,
            session=session,
            since_us=since_us,
            most=most,
            before=before,
            seconds=seconds,
            progress=progress,
        )

    def needing(self, *, most: int = 200, every_halted: bool = False) -> attention.Needing:
        """How many sessions need attention, exactly and by kind, with the most urgent of them: all that wait, or run
        and are quiet or lost, and the newest `most` each of those that are halted, failed or were terminated."""
        return attention.needing(self._context, most=most, every_halted=every_halted)

    def unfinished(self, *, most: int = 1000) -> builtins.list[SessionInfo]:
        """Sessions that are queued, running or waiting, newest first."""
        query = Query(statuses=frozenset({"queued", "spawning", "working", "waiting"}))
        records = islice(listing.every_session(self._context.store, query), most)
        return [listing.info_of(self._context, record) for record in records]

    def counts(self) -> dict[Status, int]:
        """Number of sessions by stored status."""
        return self._context.store.count_sessions()

    def tree(self, ref: str) -> builtins.list[queries.Branch]:
        """The whole tree of a session: the one it descends from, and all children and forks below that one."""
        return queries.tree(self._context, self._found(ref))

    def shared(
        self,
        name: str,
        *,
        agent: str | None = None,
        provider: str | None = None,
        task: str | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        workspace: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: str | float = "step",
        lease_seconds: float | None = None,
        begins: bool = True,
    ) -> sharing.SharedSession:
        """A session that several programs write to at once, for frameworks that allow it; writes are queued."""
        fields = opening.checked_fields(
            labels=labels, metadata=metadata, agent=agent, provider=provider, task=task, key=key
        )
        given = opening.lease_seconds_of(self._context.environment) if lease_seconds is None else lease_seconds
        return sharing.SharedSession(
            self._context,
            name,
            fields | opening.here(),
            workspace=workspace,
            snapshot=snapshot,
            lease_seconds=opening.checked_seconds(given),
            begins=begins,
        )

    def update(
        self, ref: str, *, name: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> SessionInfo:
        """Rename a session, or change its labels: those given replace or join the others, None removes one. No step is
        written. Conflict if another session has the name."""
        found = self._whole(ref, "renamed or given key=value labels")
        given = dict(labels or {})
        kept = {key: value for key, value in given.items() if value is not None}
        fields = opening.checked_fields(labels=kept, metadata=None)
        if name is not None and name != found.identity.name:
            names.check_free(self._context, name)
            names.release_archived(self._context, name)

        def change(now: Identity) -> Identity:
            # Onto the labels as they are stored then: what another process set meanwhile stays.
            others = {key: value for key, value in now.labels.items() if key not in given}
            return msgspec.structs.replace(now, name=name or now.name, labels=others | fields.get("labels", {}))

        if given or name is not None:
            self._context.store.update(found.identity.id, change)
        return self._info(found.identity.id)

    def acknowledge(self, ref: str, *, seconds: float | None = None) -> Acknowledged:
        """Acknowledge why a session needs attention: `needing` leaves it out until something new happens, or for so
        many seconds. The session is not changed."""
        return acknowledging.acknowledge(self._context, self._whole(ref, "acknowledged"), seconds=seconds)

    def remind(self, ref: str) -> bool:
        """Withdraw an acknowledgement; whether there was one."""
        return acknowledging.remind(self._context, self._whole(ref, "acknowledged"))

    def archive(self, ref: str) -> Checkpoint:
        """Archive for good: readable, never resumed."""
        return archiving.archive(self._context, self._whole(ref, "archived"))

    def remove(
        self, ref: str, *, with_forks: bool = False, with_children: bool = False, dry_run: bool = False
    ) -> removing.Removed:
        """Remove a session with all its bytes. Returns what was removed."""
        found = self._whole(ref, "removed")
        return removing.drop(self._context, found, with_forks=with_forks, with_children=with_children, dry_run=dry_run)

    def removed(self, session: str) -> Tombstone | None:
        """How a session was removed, by its full id; None if unknown."""
        return retention.tombstone_of(self._context, session)

    def removals(self, *, after: str = "") -> dict[str, Tombstone]:
        """Remembered removals, oldest first, by increasing name; those after `after`."""
        return retention.tombstones(self._context, after=after)


def _stored_statuses(shown: frozenset[Status]) -> frozenset[Status]:
    """The stored statuses that may be shown as these: `working` with a dead owner is shown as `terminated`."""
    return shown | LIVE if "terminated" in shown else shown
