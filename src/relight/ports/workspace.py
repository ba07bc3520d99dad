"""The promises of a workspace, and of the rows that keep its content from being swept away under a writer.

How a step commits files (the order is the promise):
    1. `snapshot()` captures and makes durable; the Snapshot says in which segments its content may lie
    2. the store's transaction checks that each of those segments still has its row, and writes the step
    3. a missing row is a `Conflict`: call `recover()`, take a new snapshot, commit again
A segment's row is durable before its file exists; sweep removes the row, and only then looks which snapshots are
committed, copies on what they need, and removes the file. So whatever was committed before the row went is copied, and
nothing that depends on the row can be committed after: a paused writer cannot commit what was swept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

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


class SegmentIndex(Protocol):
    """The rows a store keeps: (pool, segment), nothing else. All three are safe from any thread and process."""

    def add_segment(self, pool: str, segment: str) -> None:
        """Add the row; durable on return. The file does not exist yet."""

    def list_segments(self, pool: str) -> frozenset[str]:
        """The segments of a pool that have a row."""

    def remove_segments(self, pool: str, segments: Iterable[str]) -> None:
        """Remove rows; durable on return. Missing ones are no error."""


class Workspace(Protocol):
    """The agent's directory, one root of a session. Calls are serialised inside; any thread may make them."""

    @property
    def name(self) -> str:
        """The root's name within its session; every error names it beside the path."""

    def check_usable(self) -> None:
        """Raise unless the directory exists and is the one that was recorded. Touches nothing."""

    def snapshot(self) -> Snapshot:
        """Capture, make durable, return. Nothing changed: the same id, nothing written. Never a stale id."""

    def recover(self) -> None:
        """After a commit met a missing segment row: forget what cannot be relied on any more."""

    def diff(self, before: str, after: str | None = None) -> tuple[Change, ...]:
        """What changed between two snapshots; None means the disk now."""

    def read(self, snapshot: str, path: bytes) -> bytes:
        """The content of one file of a snapshot, or a link's target. `NotFound` where it holds none."""

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        """What the snapshot left out, and why."""

    def plan_restore(
        self,
        target: str,
        *,
        last: str | None = None,
        history: Sequence[str] = (),
        choice: Choice = "stop",
        exact: bool = False,
        paths: Sequence[bytes] = (),
    ) -> RestorePlan:
        """Take the safety snapshot and say exactly what `restore` would do.

        `last` is the newest snapshot that the session committed (None: the target is), `history` all of them: a path
        that differs from `last` was changed by somebody else, a path that none holds is never deleted.
        """

    def restore(self, plan: RestorePlan) -> RestoreOutcome:
        """Do it. `Conflict` where the disk is not as planned any more; resumable after a kill by planning again."""

    def plan_undo(self, restore: str | None = None, *, choice: Choice = "stop") -> RestorePlan:
        """The plan that takes a restore back (the newest that is not undone); give it to `restore`."""

    def restores(self) -> tuple[RestoreRecord, ...]:
        """The undo log, newest first. One in state "begun" was interrupted: restore again, or undo it."""

    def verify(self, snapshot: str) -> tuple[str, ...]:
        """What of the snapshot's content is missing or damaged; empty when it is whole."""

    def sweep(self, live: Callable[[], Iterable[str]], *, dry_run: bool = False) -> SweepReport:
        """Remove content that no snapshot in `live()` needs. It is called again after the rows are gone."""

    def close(self) -> None:
        """Let go of descriptors and watches. Loses nothing that was acknowledged."""


class Content(Protocol):
    """What snapshots hold, whatever became of the directory they were taken of. To read."""

    def diff(self, before: str, after: str) -> tuple[Change, ...]:
        """What changed between two snapshots."""

    def entries(self, snapshot: str) -> Mapping[bytes, Entry]:
        """Everything a snapshot holds, by path."""

    def walk(self, snapshot: str) -> Iterator[tuple[bytes, Entry]]:
        """The same, one path after the other: nothing is kept of what was told."""

    def pieces(self, entry: Entry) -> Iterator[bytes]:
        """A file's bytes in pieces of bounded size, as many as its entry says; Corrupt where there are others."""

    def read(self, snapshot: str, path: bytes) -> bytes:
        """As `Workspace.read`."""

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        """As `Workspace.skipped`."""

    def close(self) -> None:
        """Let go of descriptors."""


class MadeDirectory(Protocol):
    """A new directory that is made for a session. One of the two ends it; a death before is cleared away by the next
    who makes one beside it."""

    def keep(self) -> None:
        """A session works in it now."""

    def discard(self) -> None:
        """Remove it with all that was put into it, and the directories that were made above it."""


class Workspaces(Protocol):
    """Opens workspaces whose content lies beside one store, and keeps that content in order."""

    def check_location(self) -> None:
        """UsageError where content of this store lies elsewhere than whoever opened it has said."""

    def pool_of(self, path: str) -> str:
        """The pool a directory's content goes to, unless another one is named."""

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
        """A directory as a workspace. `adopt` takes it although another directory was recorded under this path;
        `read_only` stores nothing, so that its snapshots serve to compare and to plan, and are gone when it closes;
        `plain_modes` restores no setuid, setgid, sticky or world-writable mode, and its plans say where."""

    def content(self, pool: str) -> Content:
        """What the snapshots of a pool hold."""

    def broken(self, pool: str, snapshots: Iterable[str]) -> dict[str, str]:
        """Those whose content is missing or damaged, and what is wrong; every object is read once."""

    def objects(self, pool: str, snapshots: Iterable[str]) -> Iterator[bytes]:
        """Everything these snapshots are made of, each object once: what `take_in` takes."""

    def take_in(self, pool: str, objects: Iterable[bytes], snapshots: Sequence[str]) -> dict[str, Snapshot]:
        """Put objects from elsewhere into a pool, durable on return; these snapshots by id, ready for a step.

        Corrupt where one of them is not whole; then, as after an error of `objects`, nothing stays behind."""

    def repository(self, path: str) -> tuple[bool, GitHead | None]:
        """Whether a directory holds a `.git`, and where it stands; None where that cannot be read. git is not run."""

    def recorded_head(self, pool: str, snapshot: str) -> GitHead | None:
        """Where the repository at the root stood when a snapshot was taken; None where there was none."""

    def prepare(self, path: str, *, name: str) -> None:
        """Make the directory where it is missing. Conflict where something is in it."""

    def make(
        self, path: str, *, name: str, session: str, attempt: int, begun: Callable[[str, int], bool]
    ) -> MadeDirectory:
        """The same for the next attempt of a session, so that it goes again where that attempt does not begin.

        `begun(session, attempt)` tells whether a session has begun an attempt after that one: what was made for it is
        its own then, whatever became of who made it."""

    def is_unfinished(self, path: str, begun: Callable[[str, int], bool]) -> bool:
        """Was the directory being made when its maker was killed? Then it is perhaps half filled, and no workspace."""

    def sweep(
        self,
        pool: str,
        live: Callable[[], Iterable[str]],
        *,
        dry_run: bool = False,
        thorough: bool = False,
        grace_seconds: float = 0.0,
    ) -> SweepReport:
        """Remove content that no snapshot in `live()` needs; `dry_run` says what that would free.

        `thorough` leaves not one dead byte, and waits for nobody. `grace_seconds` keeps what was written so recently,
        though no step names it: a courtesy to writers, who are safe without it (see above).
        """

    def pools(self) -> frozenset[str]:
        """Pools that have content off the machine, though no row may speak of them any more: a sweep ends them."""

    @property
    def place(self) -> str:
        """Where content lies, as people are told."""

    @property
    def is_remote(self) -> bool:
        """Whether that is off the machine."""

    def probe(self) -> None:
        """Write, read and delete something there. An error says what does not work, and what to do."""

    def size_bytes(self) -> int:
        """What all content takes where it lies."""
