"""Workspaces, and the segment rows that protect their content from a concurrent sweep.

How a step commits files (the order is the guarantee):
    1. `snapshot()` captures the files and makes them durable; the Snapshot lists the segments that hold its content
    2. the store's transaction checks that each of those segments still has its row, and writes the step
    3. a missing row is a `Conflict`: call `recover()`, take a new snapshot, commit again
A segment's row is durable before its file exists. Sweep removes the row first, then reads which snapshots are
committed, copies what they need into new segments, and removes the file. So content committed before the row went is
copied, and nothing that depends on the row can be committed after: a paused writer cannot commit what was swept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from relight.values.snapshot import (
    Change,
    Choice,
    Entry,
    GitHead,
    RestoreOutcome,
    RestorePlan,
    RestoreRecord,
    Skipped,
    Snapshot,
    SweepReport,
)

if TYPE_CHECKING:
    from relight.ports.store import Store


class SegmentIndex(Protocol):
    """The segment rows of a store: (pool, segment). All methods are safe from any thread and process."""

    def add_segment(self, pool: str, segment: str) -> None:
        """Add the row; durable on return. The file does not exist yet."""

    def list_segments(self, pool: str) -> frozenset[str]:
        """The segments of a pool that have a row."""

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        """Remove rows; durable on return. Missing ones are no error."""


class Workspace(Protocol):
    """One root of a session: a directory that is captured and restored. Thread-safe; calls are serialised."""

    @property
    def name(self) -> str:
        """The root's name within its session; every error names it beside the path."""

    def check_usable(self) -> None:
        """Raise unless the directory exists and is the one that was recorded. Changes nothing."""

    def snapshot(self) -> Snapshot:
        """Capture the directory; durable on return. If nothing changed, the same id and nothing written."""

    def recover(self) -> None:
        """After a commit met a missing segment row: drop cached knowledge of what is stored."""

    def diff(self, before: str, after: str | None = None) -> tuple[Change, ...]:
        """What changed between two snapshots; None means the disk now."""

    def read(self, snapshot: str, path: bytes) -> bytes:
        """The content of one file of a snapshot, or a link's target. `NotFound` if there is none."""

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        """The files that the snapshot left out, and why."""

    def plan_restore(
        self,
        target: str,
        *,
        last: str | None = None,
        history: Sequence[str] = (),
        choice: Choice = "stop",
        exact: bool = False,
        paths: Sequence[bytes] = (),
        take: Sequence[bytes] = (),
    ) -> RestorePlan:
        """Take the safety snapshot and plan exactly what `restore` would do. `take`: paths for which the target wins,
        whatever the `choice` for other conflicts.

        `last` is the newest snapshot that the session committed (None: the target), `history` all of them: a path that
        differs from `last` was changed outside of the session, and a path that is in none is never deleted.
        """

    def restore(self, plan: RestorePlan) -> RestoreOutcome:
        """Execute a plan. `Conflict` if the disk has changed since; after a kill, plan and restore again."""

    def plan_undo(self, restore: str | None = None, *, choice: Choice = "stop") -> RestorePlan:
        """The plan that undoes a restore (default: the newest not undone); pass it to `restore`."""

    def restores(self) -> tuple[RestoreRecord, ...]:
        """The undo log, newest first. A restore in state "begun" was interrupted: restore again, or undo it."""

    def verify(self, snapshot: str) -> tuple[str, ...]:
        """Missing or damaged content of a snapshot; empty if it is whole."""

    def sweep(self, live: Callable[[], Iterable[str]], *, dry_run: bool = False) -> SweepReport:
        """Remove content that no snapshot in `live()` needs. `live` is called again after rows were removed."""

    def close(self) -> None:
        """Close descriptors and watches. Loses nothing that was acknowledged."""


class Content(Protocol):
    """Read access to the content of a pool's snapshots, independent of the captured directory."""

    def diff(self, before: str, after: str) -> tuple[Change, ...]:
        """What changed between two snapshots."""

    def entries(self, snapshot: str) -> Mapping[bytes, Entry]:
        """All entries of a snapshot, by path."""

    def walk(self, snapshot: str) -> Iterator[tuple[bytes, Entry]]:
        """All entries of a snapshot, one at a time, in bounded memory."""

    def pieces(self, entry: Entry) -> Iterator[bytes]:
        """A file's bytes in pieces of bounded size; Corrupt unless they add up to the entry's size."""

    def read(self, snapshot: str, path: bytes) -> bytes:
        """As `Workspace.read`, for any snapshot of the pool."""

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        """As `Workspace.skipped`, for any snapshot of the pool."""

    def close(self) -> None:
        """Close the pool's file descriptors."""


class MadeDirectory(Protocol):
    """A new directory made for a session, until one of the two methods is called. If its maker dies before, the next
    `make` beside it removes it."""

    def keep(self) -> None:
        """Leave it: a session works in it now."""

    def discard(self) -> None:
        """Remove it with its content, and the parent directories that were made for it."""


class Workspaces(Protocol):
    """Opens the workspaces of one store, and manages their stored content."""

    def check_location(self) -> None:
        """UsageError if this store's content is at another location than the one it was opened with."""

    def pool_of(self, path: str) -> str:
        """The default pool for a directory's content."""

    def open(
        self,
        path: str,
        *,
        name: str,
        pool: str,
        watch: bool = False,
        adopt: bool = False,
        read_only: bool = False,
        plain_modes: bool = False,
    ) -> Workspace:
        """Open a directory. `adopt` accepts one that has replaced the directory recorded under this path; `read_only`
        stores nothing: its snapshots serve to compare and to plan, and are gone when it closes; `plain_modes` restores
        no setuid, setgid, sticky or world-writable mode, and its plans say for which paths."""

    def content(self, pool: str) -> Content:
        """Read access to the snapshots of a pool."""

    def broken(self, pool: str, snapshots: Iterable[str]) -> dict[str, str]:
        """The snapshots whose content is missing or damaged, and what is wrong; every object is read once."""

    def objects(self, pool: str, snapshots: Iterable[str]) -> Iterator[bytes]:
        """All objects of these snapshots, each once, as `take_in` accepts them."""

    def take_in(self, pool: str, objects: Iterable[bytes], snapshots: Sequence[str]) -> dict[str, Snapshot]:
        """Import objects into a pool, durable on return; these snapshots by id, ready to be committed.

        Corrupt if one of them is incomplete; then, as after an error of `objects`, nothing is left in the pool."""

    def repository(self, path: str) -> tuple[bool, GitHead | None]:
        """Whether a directory has a `.git`, and its HEAD; None if that cannot be read. git is not run."""

    def recorded_head(self, pool: str, snapshot: str) -> GitHead | None:
        """The repository's HEAD when a snapshot was taken; None if the root had no repository."""

    def prepare(self, path: str, *, name: str) -> None:
        """Create the directory if it is missing. Conflict if it is not empty."""

    def make(
        self, path: str, *, name: str, session: str, attempt: int, begun: Callable[[str, int], bool]
    ) -> MadeDirectory:
        """Like `prepare`, for the next attempt of a session: removed again if that attempt does not begin.

        `begun(session, attempt)` tells whether a session has begun an attempt after that one: then the directory
        belongs to the session, even if the process that made it has died."""

    def is_unfinished(self, path: str, begun: Callable[[str, int], bool]) -> bool:
        """Whether the process that made the directory was killed meanwhile: it may be half filled, and is not used."""

    def sweep(
        self,
        pool: str,
        live: Callable[[], Iterable[str]],
        *,
        dry_run: bool = False,
        thorough: bool = False,
        grace_seconds: float = 0.0,
    ) -> SweepReport:
        """Remove content that no snapshot in `live()` needs; `dry_run` reports what that would free.

        `thorough` removes every dead byte, however little that frees. `grace_seconds` spares recent content that no
        step refers to yet: writers are safe without it (see above), but would have to capture again.
        """

    def pools(self) -> frozenset[str]:
        """Pools with remote content, including those without a row, which a sweep then removes."""

    @property
    def location(self) -> str:
        """Where content is stored, for display."""

    @property
    def is_remote(self) -> bool:
        """Whether content is stored off this machine."""

    def probe(self) -> None:
        """Write, read and delete a test object. An error says what does not work, and what to do."""

    def size_bytes(self) -> int:
        """The size of all stored content."""


WorkspacesFactory = Callable[["Store", Mapping[str, str]], Workspaces]
"""the object of an entry point in the group `relight.workspaces`: from the store and the environment"""
