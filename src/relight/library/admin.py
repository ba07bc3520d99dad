"""`rl.admin`: care of a store: retention and removal, leases, rehearsals of a restore."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from relight.library.noun import Noun
from relight.system.lazy_module import LazyModule
from relight.values.checkpoint import Checkpoint
from relight.values.policy import Policy, Retention
from relight.values.queues import Pause

if TYPE_CHECKING:
    from relight.bundles import backup as backing_up
    from relight.bundles import copying
    from relight.files import drill as drilling
    from relight.history import queries
    from relight.history import search as searching
    from relight.operations import clear as clearing
    from relight.operations import health, remove
    from relight.operations import retention as retaining
    from relight.operations import sweep as sweeping
    from relight.supervision import pause as pausing
else:
    drilling, queries, clearing = map(
        LazyModule, ("relight.files.drill", "relight.history.queries", "relight.operations.clear")
    )
    backing_up, health = map(LazyModule, ("relight.bundles.backup", "relight.operations.health"))
    copying, searching = map(LazyModule, ("relight.bundles.copying", "relight.history.search"))
    pausing = LazyModule("relight.supervision.pause")
    remove, retaining, sweeping = map(
        LazyModule, ("relight.operations.remove", "relight.operations.retention", "relight.operations.sweep")
    )


class Admin(Noun):
    """Verbs for the operator of a store."""

    def leases(self, *, most: int = 1000) -> list[queries.LeaseInfo]:
        """Current leases and their owners."""
        return queries.leases(self._context, most=most)

    def release(
        self, ref: str, *, why: str | None = None, who: str | None = None, forget_native: bool = False
    ) -> Checkpoint:
        """Revoke the lease; recorded in the journal. `forget_native`: the native session is not continued."""
        return clearing.clear(self._context, self._whole(ref, "cleared"), why=why, who=who, forget_native=forget_native)

    def retention(self) -> Policy:
        """The retention policy; without one nothing is removed."""
        return retaining.policy_of(self._context)

    def set_retention(self, days: float | None, *, by: str = "a program") -> Policy:
        """Set the store's policy: finished sessions are removed so many days after their end, once a day, by
        `serve`, workers and supervisors. None, or no policy: nothing is removed."""
        return retaining.set_policy(self._context, days, by=by)

    def kept_longer_than(self, days: float) -> retaining.Kept:
        """How many finished sessions ended more than so many days ago, and the size of their journals."""
        return retaining.kept_longer_than(self._context, days)

    def sweep(self, policy: Retention | None = None, *, dry_run: bool = False, by: str = "a program") -> remove.Removed:
        """Remove finished sessions whose retention is over: by `policy`, else the store's, else 7 days. Only when
        called; see `set_retention` for a daily sweep."""
        days = self.retention().finished_days
        chosen = policy or (Retention(finished_days=days) if days is not None else Retention())
        return sweeping.sweep(self._context, chosen, dry_run=dry_run, by=by)

    def sweep_if_due(self, *, by: str) -> remove.Removed | None:
        """The daily sweep under the store's policy; None if there is no policy, or if it was done already."""
        return sweeping.sweep_if_due(self._context, by=by)

    def last_sweep_us(self) -> int | None:
        """When the last sweep under the policy began, in microseconds since 1970."""
        return retaining.last_sweep_us(self._context)

    def drill(self, ref: str, directory: str | os.PathLike[str], *, most_bytes: int) -> drilling.Drilled | None:
        """Restore a checkpoint below an empty directory and compare it; None if it is larger than the bound."""
        return drilling.drill(self._context, self._found(ref), Path(directory), most_bytes=most_bytes)

    def health(self) -> health.Health:
        """How the store is: what it says about itself, damage that it finds, sessions by status, space, retention."""
        return health.check(self._context)

    def migrate(self, *, seconds: float | None = None, progress: searching.Progress | None = None) -> int:
        """Bring the store up to date, for so many seconds or until it is. Opening it for writing has updated its
        schema; here all steps get into the index of words that a search uses. Returns how many are left."""
        return searching.catch_up(self._context.store, seconds=seconds, progress=progress)

    def backup(
        self, path: str | os.PathLike[str], *, progress: backing_up.Progress | None = None
    ) -> backing_up.BackedUp:
        """Write the whole store, as it is at one moment, to a new SQLite file that is a store itself, and its captured
        files to the directory `path`.blobs; verified by every digest before the file appears. Writers are not
        blocked."""
        return backing_up.backup(self._context, Path(path), progress=progress)

    def copy(self, destination: str, *refs: str, progress: copying.Progress | None = None) -> copying.Copied:
        """Copy sessions with what they depend on and their files into another store of any kind, or all of them.

        Nothing is changed here, nothing is overwritten there, and every copy is verified by its digests. Interrupted,
        the next copy continues."""
        other = self._context.open_other(destination)
        try:
            return copying.copy_sessions(self._context, other, refs, progress=progress)
        finally:
            other.store.close()

    def pause(self, *, by: str, reason: str | None = None) -> pausing.Paused:
        """End everything that runs under supervision, on every machine that uses this store, and start nothing until
        `unpause`. Nothing is lost: each session can be resumed where it was."""
        return pausing.pause(self._context, by=by, reason=reason)

    def unpause(self) -> Pause | None:
        """End the pause: workers claim sessions again. What ran without a worker is resumed by `relight resume
        --all`."""
        return pausing.unpause(self._context)

    def paused(self) -> Pause | None:
        """The pause that holds now, or None."""
        return pausing.paused(self._context)

    def probe_files(self) -> None:
        """Write, read and delete a test object at a remote location of captured files; an error says what to do."""
        self._context.workspaces().probe()
