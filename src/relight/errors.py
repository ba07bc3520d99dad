"""Every error relight raises, in one tree, ordered by who can act on it.

    RelightError
    ├─ UsageError             the caller changes the call                 exit 2   RL-1xxx
    │  ├─ InvalidMessage      a value that is not JSON, or too large
    │  ├─ InvalidName         a name or label that could not be typed back
    │  ├─ UnknownType         a value of a type that is not registered
    │  ├─ ScopeRequired       rewind without a scope: conversation, files or both
    │  ├─ MissingExtra        an optional part that is not installed
    │  └─ UnknownStore        a store address of a kind we do not know
    ├─ Unresolved             the caller names something else             exit 3   RL-2xxx
    │  └─ NotFound · Ambiguous
    ├─ AgentFailed            the program under relight failed            exit 1   RL-3xxx
    │  └─ ChildFailed         a child that was waited for has no result
    ├─ Waiting                not a failure: it waits for a person, or a time   exit 0
    ├─ Refused                the session's state forbids it              exit 4   RL-4xxx
    │  ├─ LeaseHeld · LeaseLost · NotResumable · Conflict · InDoubt · LimitReached (exit 6)
    │  ├─ ToolsChanged · HasForks · Finished · QueueFull
    │  ├─ WorkspaceUnusable · SnapshotIncomplete · RestoreConflict · RestoreUnfinished · OverQuota
    │  ├─ NamesFold · PathsRefused    the file system takes two names for one, or cannot hold a path
    │  ├─ ThreadBusy · ThreadGone    a framework's thread has another writer, or was deleted
    │  └─ BundleRefused       a bundle that is damaged, forged or in the way
    ├─ StoreError             the operator repairs the store              exit 5   RL-5xxx
    │  ├─ StoreUnavailable · StoreFull · StoreReadOnly
    │  └─ Corrupt · NotAStore · NewerStore
    └─ RequestRefused         the server rejects the request, server/http/refusals.py   RL-6xxx

An error has fields for programs, a sentence for people, evidence lines, and hints that can be pasted into a shell.
A driver's exception is wrapped once, in the store where it arises, and never leaves that store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar

from relight.text.explained import Explained
from relight.text.safe import one_line, path_lines, safe_address, shortened


class RelightError(Explained):
    """The root of the tree. `str(error)` is one sentence without code or hints."""

    code: ClassVar[str] = "RL-0000"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


# -- the caller changes the call ------------------------------------------------------------------------------


class UsageError(RelightError):
    """The call is wrong in any state of the session."""

    code = "RL-1000"
    exit_code = 2
    http_status = 400


class InvalidMessage(UsageError):
    """A message, state value or result that is not JSON data, or is too large; a reply that is no message."""

    code = "RL-1001"

    def __init__(self, why: str, *, path: str = "$", says: str | None = None, hints: Iterable[str] = ()) -> None:
        super().__init__(says or f"not storable at {path}: {why}", hints=hints)
        self.path, self.why = path, why


class InvalidName(UsageError):
    """A session name or label outside the allowed alphabet or length."""

    code = "RL-1002"

    def __init__(self, what: str, value: str, rule: str, *, hints: Iterable[str] = ()) -> None:
        shown = value if len(value) <= 40 else value[:40] + "…"
        super().__init__(f"not a valid {what}: {shown!r}", evidence=[rule], hints=hints)
        self.value = value


class UnknownType(UsageError):
    """A value of a type that is not registered: it is not saved, and if stored, never constructed."""

    code = "RL-1007"

    def __init__(self, name: str, *, path: str, stored: bool = False) -> None:
        module, _, last = name.rpartition(".")
        what = (
            f"{path}: the stored value is a {name}, which is not registered; it was not constructed or imported"
            if stored
            else f"{path}: a {name} is not plain data, and its type is not registered; nothing was saved"
        )
        line = f"from {module} import {last}; saver.register({last})" if module else f"saver.register({last})"
        super().__init__(what, hints=[f"if it is your own type: {line}"])
        self.type_name, self.path = name, path


class ScopeRequired(UsageError):
    """A rewind needs a scope. There is no default, because either one would destroy work by surprise."""

    code = "RL-1004"

    def __init__(self, ref: str) -> None:
        hints = [f"see what would change: relight diff {ref}"]
        super().__init__("choose what to rewind: --conversation, --files or --both", hints=hints)


class MissingExtra(UsageError):
    """A part of relight whose packages are not installed."""

    code = "RL-1005"

    def __init__(self, extra: str, *, needed_for: str) -> None:
        hints = [f"pip install 'relight[{extra}]'"]
        super().__init__(f"{needed_for} needs the extra {extra!r}, which is not installed", hints=hints)
        self.extra = extra


class UnknownStore(UsageError):
    """A store address with an unknown scheme."""

    code = "RL-1006"

    def __init__(self, url: str, *, known: Sequence[str]) -> None:
        super().__init__(
            f"unknown kind of store: {safe_address(url)!r}",
            evidence=["known: " + ", ".join(known)],
            hints=["set RELIGHT_STORE=sqlite:///path/to/relight.db"],
        )
        self.url = url


# -- the caller names something else --------------------------------------------------------------------------


class Unresolved(RelightError):
    """A reference that does not match exactly one thing."""

    code = "RL-2000"
    exit_code = 3
    http_status = 404


class NotFound(Unresolved):
    """Nothing matches this reference."""

    code = "RL-2001"

    def __init__(
        self, ref: str, *, what: str = "session", evidence: Iterable[str] = (), hints: Iterable[str] = ()
    ) -> None:
        if not hints and what in ("session", "checkpoint", "snapshot of the files"):
            hints = ["relight list --all"]
            if "@" in ref and what != "session":
                hints = [f"relight checkpoints {ref.partition('@')[0]}"]
        super().__init__(f"no {what} matches {ref!r}", evidence=evidence, hints=hints)
        self.ref, self.what = ref, what


class Ambiguous(Unresolved):
    """More than one session matches this reference."""

    code = "RL-2002"
    http_status = 409

    def __init__(self, ref: str, candidates: Sequence[str], *, evidence: Iterable[str] = ()) -> None:
        hints = ["use the full name or more letters of the id"]
        super().__init__(f'"{ref}" matches {len(candidates)} sessions', evidence=evidence or candidates, hints=hints)
        self.ref, self.candidates = ref, tuple(candidates)


# -- the program under relight --------------------------------------------------------------------------------


class AgentFailed(RelightError):
    """The program that relight ran failed, or could not be started; its saved steps remain."""

    code = "RL-3001"


class ChildFailed(AgentFailed):
    """Children that `s.join` waited for have ended without a result. They stay as they are."""

    code = "RL-3003"

    def __init__(self, session: str, children: Sequence[tuple[str, str, str]]) -> None:
        """`children`: name, status and reason of each that has no result."""
        super().__init__(
            f"{session}: without a result: {', '.join(name for name, _, _ in children)}",
            evidence=[f"{name}  {status}{': ' + why if why else ''}" for name, status, why in children],
            hints=[f"continue one where it stopped: s.spawn({children[0][0]!r})"],
        )
        self.session, self.children = session, tuple(children)


class Waiting(RelightError):
    """Leaves the block of a session that waits for a person, or `until` a time, after the wait is committed."""

    code = "RL-3002"
    exit_code = 0
    http_status = 202

    def __init__(self, session: str, question: str, *, cure: str | None = None, until: datetime | None = None):
        what = f"sleeping until {until:%Y-%m-%d %H:%M:%S} UTC" if until else f"waiting for an answer: {question}"
        super().__init__(what, hints=[cure or f"relight send {session} ANSWER"])
        self.session, self.question, self.until, self.is_supervised = session, question, until, False
        """whether a supervisor or worker started the program: it reports the wait, and starts the program again"""

    @property
    def line(self) -> str:
        """What it waits for and what ends the wait, as one line for a terminal."""
        what = one_line(shortened(self.message, 400))
        return f"relight: {self.session} is {what}  ({self.hints[0]}, then run this program again)"

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of a traceback."""
        return [self.line]


# -- the session's state forbids it ---------------------------------------------------------------------------


class Refused(RelightError):
    """The session's state does not allow it; nothing was changed."""

    code = "RL-4000"
    exit_code = 4
    http_status = 409


class LimitReached(Refused):
    """A limit of the session is reached, so it is halted. All steps remain, the last reply included."""

    code = "RL-4040"
    exit_code = 6

    def __init__(self, session: str, why: str, *, cure: str | None = None) -> None:
        hints = ["nothing is lost; open it with a higher limit to continue"]
        super().__init__(f"{session}: halted: {why}", hints=hints if cure is None else [f"nothing is lost; {cure}"])
        self.session, self.why = session, why


class LeaseHeld(Refused):
    """Another process owns the session."""

    code = "RL-4001"

    def __init__(
        self, session: str, *, owner: str, until: str, epoch: int, is_mine: bool = False, tools_run: bool = False
    ) -> None:
        hints = [f"it is running; watch it: relight tail {session} -f", "wait for it: session(NAME, wait=10)"]
        if tools_run:  # its block was left by a timeout or a cancellation, which no thread notices
            hints = ["a tool of it still runs in a thread, which cannot be stopped; wait: session(NAME, wait=10)"]
        elif is_mine:  # as when a cell of a notebook is run again
            hints = ["this process has it open: leave its `with` block, or call close() on it"]
        hints.append(f"if it hangs: relight clear {session}")
        said = f"{session}: lease held by {owner} until {until}" + (", which is this process" if is_mine else "")
        super().__init__(said, evidence=[f"lease    epoch {epoch}, ends {until}"], hints=hints)
        self.session, self.owner, self.until, self.epoch = session, owner, until, epoch


class LeaseLost(Refused):
    """Another process has claimed the session; this one must not write to it any more."""

    code = "RL-4002"

    def __init__(self, session: str, *, mine: int, current: int) -> None:
        super().__init__(
            f"{session}: the lease was taken over (epoch {mine}, now {current}); nothing was written",
            hints=[f"see which process runs it: relight show {session}"],
        )
        self.session, self.mine, self.current = session, mine, current


class NotResumable(Refused):
    """The session cannot be resumed in this way."""

    code = "RL-4003"

    def __init__(self, session: str, why: str, *, hints: Iterable[str] = ()) -> None:
        super().__init__(f"{session}: {why}", hints=hints)
        self.session, self.why = session, why


class Conflict(Refused):
    """The state changed between the read and the write, or the transition is not allowed."""

    code = "RL-4004"


class PlanMoved(Conflict):
    """The session changed since its plan was made; nothing was done."""

    code = "RL-4010"

    def __init__(self, session: str, *, shown: str, now: str) -> None:
        super().__init__(
            f"{session}: the session changed since the plan was made ({shown}, now {now}); nothing was done",
            hints=["check the new plan, then repeat the request with its hash"],
        )
        self.session, self.now = session, now


class QueueFull(Refused):
    """The queue has no free slot: its concurrency or its rate of starts is used up."""

    code = "RL-4011"
    http_status = 429

    def __init__(self, queue: str, why: str, *, again_seconds: float) -> None:
        super().__init__(
            f"queue {queue} has no free slot: {why}",
            hints=[
                "the session stays queued and starts when a slot is free",
                f"see: relight queue list; change its limits: relight queue set {queue}",
            ],
        )
        self.queue, self.again_seconds = queue, again_seconds
        """after which to try again, at the earliest"""


class SnapshotSwept(Conflict):
    """Content of a snapshot was swept before its step was committed; take a new snapshot."""

    code = "RL-4009"

    def __init__(self, session: str, pool: str) -> None:
        super().__init__(
            f"{session}: content of its snapshot was swept before the commit (pool {pool}); take a new one"
        )
        self.session, self.pool = session, pool


class InDoubt(Refused):
    """An effect has an unknown outcome; running it again could do it twice."""

    code = "RL-4005"

    def __init__(self, session: str, key: str) -> None:
        super().__init__(
            f"{session}: {key!r} started and is not known to have ended",
            hints=[
                f"check whether it took effect, then: relight settle {session} {key} --result TEXT",
                f"or run it again: relight settle {session} {key} --retry",
            ],
        )
        self.session, self.key = session, key


class ToolsChanged(Refused):
    """A pending call's tool is gone, or its effect was declared differently when the call was made."""

    code = "RL-4006"

    def __init__(self, session: str, diff: Sequence[str]) -> None:
        super().__init__(
            f"{session}: the tool of a pending call changed",
            evidence=diff,
            hints=[f"restore the tool, or settle the call: relight settle {session} CALL --result TEXT | --retry"],
        )
        self.session, self.diff = session, tuple(diff)


class HasForks(Refused):
    """Other sessions read part of their history from this one, or are its children."""

    code = "RL-4007"

    def __init__(self, session: str, forks: Sequence[str], children: Sequence[str] = ()) -> None:
        many = [f"{len(forks)} forks"] * bool(forks) + [f"{len(children)} children"] * bool(children)
        lines = [f"fork  {one}" for one in forks] + [f"child  {one}" for one in children]
        flags = " --with-forks" * bool(forks) + " --with-children" * bool(children)
        super().__init__(f"{session}: {' and '.join(many)} depend on it", evidence=lines)
        self.hints = (f"relight rm {session}{flags}",)
        self.session, self.forks, self.children = session, tuple(forks), tuple(children)


class Finished(Refused):
    """The session has a final status; only a new attempt can write to it."""

    code = "RL-4008"

    def __init__(self, session: str, status: str, *, evidence: Iterable[str] = ()) -> None:
        hints = ["continue with a new prompt: s.prompt(TEXT)", "or start over: rl.session(name, resume=False)"]
        if status == "waiting":
            hints = [f"leave the block, and open it again after the answer: relight show {session}"]
        super().__init__(f"{session}: is {status}; nothing more can be written to it", evidence=evidence, hints=hints)
        self.session, self.status = session, status


# -- workspaces -----------------------------------------------------------------------------------------------


class WorkspaceUnusable(Refused):
    """The directory is missing, is not the one that was recorded, or must not be captured."""

    code = "RL-4101"

    def __init__(self, name: str, path: str, why: str, *, hints: Iterable[str] = ()) -> None:
        super().__init__(f'failed to prepare workspace "{name}" ({path}): {why}', hints=hints)
        self.name, self.path, self.why = name, path, why


class SnapshotIncomplete(Refused):
    """Some paths could not be read, so no snapshot was taken; earlier ones are unaffected."""

    code = "RL-4102"

    def __init__(self, path: str, unreadable: Sequence[tuple[bytes, str]]) -> None:
        text = f"{path}: {len(unreadable)} paths cannot be read; no snapshot was taken"
        hints = ["make them readable, or list them in .relightignore"]
        super().__init__(text, evidence=path_lines(unreadable), hints=hints)
        self.path, self.unreadable = path, tuple(unreadable)


class RestoreConflict(Refused):
    """Paths were changed outside of the session since its last snapshot; nothing was restored."""

    code = "RL-4103"

    def __init__(self, path: str, conflicts: Sequence[tuple[bytes, str]]) -> None:
        are = "path is" if len(conflicts) == 1 else "paths are"
        text = f"{path}: {len(conflicts)} {are} in conflict; nothing was restored"
        hints = ["keep them: --theirs", "take the checkpoint's: --ours", "also delete what it lacks: --force"]
        super().__init__(text, evidence=path_lines(conflicts), hints=hints)
        self.path, self.conflicts = path, tuple(conflicts)


class NamesFold(Refused):
    """Names that the file system takes for one (it folds case or normalises Unicode); nothing was written."""

    code = "RL-4106"

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]], path: str = "") -> None:
        text = (
            f"{path}: names that are one name on its file system, so one would replace the other; nothing was written"
        )
        hints = ["choose a directory on a case-sensitive file system, or restore the files you need by their names"]
        super().__init__(text, evidence=path_lines(pairs, " and "), hints=hints)
        self.path, self.pairs = path, tuple(pairs)


class PathsRefused(Refused):
    """The file system has no symbolic links, or does not allow a name; nothing was written."""

    code = "RL-4107"

    def __init__(self, path: str, refused: Sequence[tuple[bytes, str]]) -> None:
        text = f"{path}: its file system cannot hold what is to be restored; nothing was written"
        hints = ["choose a directory on another file system, or restore the files you need by their names"]
        super().__init__(text, evidence=path_lines(refused), hints=hints)
        self.path, self.refused = path, tuple(refused)


class RestoreUnfinished(Refused):
    """An earlier restore was interrupted; it must be finished or undone before another one."""

    code = "RL-4104"

    def __init__(self, path: str, *, restore: str, target: str) -> None:
        super().__init__(
            f"{path}: an interrupted restore ({restore}) must be finished or undone first",
            evidence=[f"it was restoring {target}"],
            hints=["repeat the same restore, or undo it: relight undo REF"],
        )
        self.path, self.restore, self.target = path, restore, target


class OverQuota(Refused):
    """Capturing the files would exceed a limit of the policy; nothing was captured."""

    code = "RL-4105"

    def __init__(self, where: str, what: str, would_bytes: int, bound_bytes: int) -> None:
        super().__init__(
            f"{where}: {what} {would_bytes:,} bytes, and the policy's limit is {bound_bytes:,}; nothing was captured",
            hints=["see what can be removed: relight sweep --dry-run", "list files to skip in .relightignore"],
        )
        self.where, self.what, self.would_bytes, self.bound_bytes = where, what, would_bytes, bound_bytes


class ThreadBusy(Refused):
    """Another writer has the thread; nothing was saved."""

    code = "RL-4301"

    def __init__(self, thread: str, why: str, *, evidence: Iterable[str] = ()) -> None:
        super().__init__(
            f"thread {thread!r} has another writer: {why}; nothing was saved",
            evidence=evidence,
            hints=["try again when it has ended, or wait for it: RelightSaver(rl, busy='wait')"],
        )
        self.thread = thread


class ThreadGone(Refused):
    """The thread was deleted while this writer still used it; a late write does not recreate it."""

    code = "RL-4302"

    def __init__(self, thread: str) -> None:
        super().__init__(
            f"thread {thread!r} was deleted, or never had this checkpoint; the write was not saved",
            hints=["to start the thread over, invoke the graph again"],
        )
        self.thread = thread


class BundleRefused(Refused):
    """A bundle that is damaged, forged, or conflicts with another history of the same id. Nothing was imported."""

    code = "RL-4201"

    def __init__(self, where: str, why: str, *, hints: Iterable[str] = ()) -> None:
        given = tuple(hints) or ("nothing was imported; get the file again from where it was exported",)
        super().__init__(f"{where}: {why}", hints=given)
        self.where, self.why = where, why


# -- the operator repairs the store ---------------------------------------------------------------------------


class StoreError(RelightError):
    """The store failed; nothing was acknowledged."""

    code = "RL-5000"
    exit_code = 5
    http_status = 503


class StoreUnavailable(StoreError):
    """The store cannot be reached, or failed. Acknowledged steps are safe; the outcome of the call may be unknown."""

    code = "RL-5001"


class Corrupt(StoreError):
    """Stored bytes are not what was written. `seq` is the damaged step, `offered` the last good checkpoint."""

    code = "RL-5002"

    def __init__(
        self, what: str, *, session: str | None = None, seq: int | None = None, offered: str | None = None
    ) -> None:
        step = f"{session}@{seq}" if session and seq is not None else session
        hints = []
        if session and offered:
            hints.append(f"resume from the last good checkpoint: relight resume {session} --from-last-good")
            hints.append(f"inspect it: relight show {offered}")
        hints.append(f"see all damage: relight verify{' ' + session if session else ''}")
        evidence = [f"last good checkpoint: {offered}"] if offered else []
        super().__init__(f"{step}: {what}" if step else what, evidence=evidence, hints=hints)
        self.what, self.session, self.seq, self.offered = what, session, seq, offered


class NotAStore(StoreError):
    """The file exists, but is not a relight store."""

    code = "RL-5003"

    def __init__(self, where: str, why: str = "not a relight store") -> None:
        super().__init__(f"{where}: {why}", hints=["choose another file: in the command, or RELIGHT_STORE"])
        self.where = where


class NewerStore(StoreError):
    """The store was written by a newer relight; it was not changed."""

    code = "RL-5004"

    def __init__(self, where: str, *, found: int, known: int) -> None:
        hints = ["pip install --upgrade relight"]
        super().__init__(f"{where}: written by a newer relight (schema {found}, this one knows {known})", hints=hints)
        self.found, self.known = found, known


class StoreFull(StoreError):
    """No space left; nothing was written, and earlier steps are intact."""

    code = "RL-5005"

    def __init__(self, where: str) -> None:
        hints = [
            "free some space on that disk, then run it again; sessions can be read meanwhile",
            "see what can be removed: relight sweep --dry-run",
        ]
        super().__init__(f"{where}: no space left; nothing was written, earlier steps are intact", hints=hints)
        self.where = where


class StoreReadOnly(StoreError):
    """The store can be read, but not written."""

    code = "RL-5006"

    def __init__(self, where: str) -> None:
        hints = ["check the permissions of the directory, or choose a writable path: in the command, or RELIGHT_STORE"]
        super().__init__(f"{where}: read-only; nothing was written", hints=hints)
        self.where = where
