"""Every error relight raises, in one tree, ordered by who can act on it.

    RelightError
    ├─ UsageError             the caller changes the call                 exit 2   RL-1xxx
    │  ├─ InvalidMessage      a value that is not JSON, or too large
    │  ├─ InvalidName         a name or label that could not be typed back
    │  ├─ UnknownType         a value of a type nobody registered
    │  ├─ ScopeRequired       rewind without saying what goes back
    │  ├─ MissingExtra        an optional part that is not installed
    │  └─ UnknownStore        a store address of a kind we do not know
    ├─ Unresolved             the caller names something else             exit 3   RL-2xxx
    │  ├─ NotFound
    │  └─ Ambiguous
    ├─ AgentFailed            the program under relight failed            exit 1   RL-3xxx
    ├─ Waiting                not a failure: a person has to answer       exit 0
    ├─ Refused                the session's state forbids it              exit 4   RL-4xxx
    │  ├─ LeaseHeld · LeaseLost · NotResumable · Conflict · InDoubt · LimitReached (exit 6)
    │  ├─ ToolsChanged · HasForks · Finished · QueueFull
    │  ├─ WorkspaceUnusable · SnapshotIncomplete · RestoreConflict · RestoreUnfinished · OverQuota
    │  ├─ ThreadBusy · ThreadGone    a framework's thread has another writer, or was deleted
    │  └─ BundleRefused       a bundle that is damaged, forged or in the way
    ├─ StoreError             the operator looks at the store             exit 5   RL-5xxx
    │  ├─ StoreUnavailable · StoreFull · StoreReadOnly
    │  └─ Corrupt · NotAStore · NewerStore
    └─ RequestRefused         the server does not take the request, server/http/refusals.py   RL-6xxx

An error carries fields for programs, a sentence for people, evidence lines and hints that can be pasted.
Drivers' exceptions are wrapped once, where they arise, and never leave the store that raised them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from relight.text.safe import safe_address


class RelightError(Exception):
    """The root of the tree. `str(error)` is one sentence without code or hints."""

    code: ClassVar[str] = "RL-0000"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, evidence: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.evidence: tuple[str, ...] = tuple(evidence)
        self.hints: tuple[str, ...] = tuple(hints)

    def name_session(self, name: str) -> None:
        """Say in the hints which session is meant, where whoever raised it could not know."""
        self.hints = tuple(hint.replace(" REF", f" {name}") for hint in self.hints)


# -- the caller changes the call ------------------------------------------------------------------------------


class UsageError(RelightError):
    """The call itself cannot be right, whatever the session's state."""

    code = "RL-1000"
    exit_code = 2
    http_status = 400


class InvalidMessage(UsageError):
    """A message, state value or result that is not JSON data, or is over the cap; a reply that is no message."""

    code = "RL-1001"

    def __init__(self, why: str, *, path: str = "$", says: str | None = None, hints: Iterable[str] = ()) -> None:
        super().__init__(says or f"not storable at {path}: {why}", hints=hints)
        self.path = path
        self.why = why


class InvalidName(UsageError):
    """A session name or label outside the allowed alphabet or length."""

    code = "RL-1002"

    def __init__(self, what: str, value: str, rule: str) -> None:
        shown = value if len(value) <= 40 else value[:40] + "…"
        super().__init__(f"not a valid {what}: {shown!a}", evidence=[rule])
        self.value = value


class UnknownType(UsageError):
    """A value of a type that was not registered: not saved, and where it is stored, never constructed."""

    code = "RL-1007"

    def __init__(self, name: str, *, path: str, stored: bool = False) -> None:
        module, _, last = name.rpartition(".")
        what = (
            f"{path}: the stored value is a {name}, which is not registered; it was not made, nothing was imported"
            if stored
            else f"{path}: a {name} is not plain data, and its type is not registered; nothing was saved"
        )
        line = f"from {module} import {last}; saver.register({last})" if module else f"saver.register({last})"
        super().__init__(what, hints=[f"where it is a type of yours: {line}"])
        self.type_name = name
        self.path = path


class ScopeRequired(UsageError):
    """A rewind has no default scope: both possible defaults have destroyed somebody's work."""

    code = "RL-1004"

    def __init__(self, ref: str) -> None:
        super().__init__(
            "say what goes back: --conversation, --files or --both",
            hints=[f"see what would change: relight diff {ref}"],
        )


class MissingExtra(UsageError):
    """A part of relight whose packages are not installed."""

    code = "RL-1005"

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the extra {extra!r}, which is not installed",
            hints=[f"pip install 'relight[{extra}]'"],
        )
        self.extra = extra


class UnknownStore(UsageError):
    """A store address whose scheme nobody handles."""

    code = "RL-1006"

    def __init__(self, url: str, *, known: Sequence[str]) -> None:
        super().__init__(
            f"unknown kind of store: {safe_address(url)!a}",
            evidence=["known: " + ", ".join(known)],
            hints=["set RELIGHT_STORE=sqlite:///path/to/relight.db"],
        )
        self.url = url


# -- the caller names something else --------------------------------------------------------------------------


class Unresolved(RelightError):
    """A reference that does not lead to exactly one thing."""

    code = "RL-2000"
    exit_code = 3
    http_status = 404


class NotFound(Unresolved):
    """Nothing answers to this reference."""

    code = "RL-2001"

    def __init__(
        self, ref: str, *, what: str = "session", evidence: Iterable[str] = (), hints: Iterable[str] = ()
    ) -> None:
        super().__init__(f"no {what} answers to {ref!a}", evidence=evidence, hints=["relight list --all"])
        session, at, _ = ref.partition("@")
        if hints:
            self.hints = tuple(hints)
        elif at and what in ("checkpoint", "snapshot of the files"):
            self.hints = (f"relight checkpoints {session}",)
        self.ref = ref
        self.what = what


class Ambiguous(Unresolved):
    """More than one session answers to this reference."""

    code = "RL-2002"
    http_status = 409

    def __init__(self, ref: str, candidates: Sequence[str], *, evidence: Iterable[str] = ()) -> None:
        super().__init__(
            f'"{ref}" fits {len(candidates)} sessions',
            evidence=evidence or candidates,
            hints=["use the full name or more letters of the id"],
        )
        self.ref = ref
        self.candidates = tuple(candidates)


# -- the program under relight --------------------------------------------------------------------------------


class AgentFailed(RelightError):
    """The program that relight ran ended badly; what it had saved is kept."""

    code = "RL-3001"
    exit_code = 1


class Waiting(RelightError):
    """Raised by `s.wait`: the question is committed and the block is to be left. Not a failure."""

    code = "RL-3002"
    exit_code = 0
    http_status = 202

    def __init__(self, session: str, question: str, *, cure: str | None = None) -> None:
        super().__init__(f"waiting for an answer: {question}", hints=[cure or f"relight send {session} ANSWER"])
        self.session, self.question = session, question


# -- the session's state forbids it ---------------------------------------------------------------------------


class Refused(RelightError):
    """Nothing was changed, because the session is not in a state that allows it."""

    code = "RL-4000"
    exit_code = 4
    http_status = 409


class LimitReached(Refused):
    """A limit of the session is reached, so it is halted. What was recorded is kept, the last reply included."""

    code = "RL-4040"
    exit_code = 6

    def __init__(self, session: str, why: str) -> None:
        super().__init__(f"{session}: halted: {why}", hints=["all is kept; open it again with a higher limit to go on"])
        self.session, self.why = session, why


class LeaseHeld(Refused):
    """Somebody else owns the session now."""

    code = "RL-4001"

    def __init__(self, session: str, *, owner: str, until: str, epoch: int, evidence: Iterable[str] = ()) -> None:
        super().__init__(
            f"{session}: lease held by {owner} until {until}",
            evidence=[f"lease    epoch {epoch}, ends {until}", *evidence],
            hints=[
                f"it is running; watch it: relight tail {session} -f",
                f"if you know that it hangs: relight clear {session}",
            ],
        )
        self.session, self.owner = session, owner
        self.until = until
        self.epoch = epoch


class LeaseLost(Refused):
    """Somebody else claimed the session; this process may not write to it any more."""

    code = "RL-4002"

    def __init__(self, session: str, *, mine: int, current: int) -> None:
        super().__init__(
            f"{session}: the lease was taken over (epoch {mine}, now {current}); nothing was written",
            hints=[f"see who runs it: relight show {session}"],
        )
        self.session = session
        self.mine, self.current = mine, current


class NotResumable(Refused):
    """The session cannot go on as asked."""

    code = "RL-4003"

    def __init__(self, session: str, why: str, *, hints: Iterable[str] = ()) -> None:
        super().__init__(f"{session}: {why}", hints=hints)
        self.session, self.why = session, why


class Conflict(Refused):
    """The state moved between the look and the write, or a transition is not allowed."""

    code = "RL-4004"


class PlanMoved(Conflict):
    """The plan that was shown is not what would happen now; nothing was done."""

    code = "RL-4010"

    def __init__(self, session: str, *, shown: str, now: str) -> None:
        super().__init__(
            f"{session}: the session moved since the plan was shown ({shown}, now {now}); nothing was done",
            hints=["look at the new plan, then ask again with its hash"],
        )
        self.session, self.now = session, now


class QueueFull(Refused):
    """Its queue allows no further session now: so many run, or so many were just started."""

    code = "RL-4011"
    http_status = 429

    def __init__(self, queue: str, why: str, *, again_seconds: float) -> None:
        super().__init__(
            f"the queue {queue} takes no further session now: {why}",
            hints=[
                "it stays in line and is started when there is room",
                f"see: relight queue list; {queue} is set by relight queue set {queue}",
            ],
        )
        self.queue = queue
        self.again_seconds = again_seconds
        """when to ask again, at the earliest"""


class SnapshotSwept(Conflict):
    """Content that a snapshot relies on was swept before a step could name it; a new snapshot helps."""

    code = "RL-4009"

    def __init__(self, session: str, pool: str) -> None:
        super().__init__(f"{session}: content of its snapshot was swept meanwhile (pool {pool}); take a new one")
        self.session, self.pool = session, pool


class InDoubt(Refused):
    """An effect started and is not known to have ended; running it again could do it twice."""

    code = "RL-4005"

    def __init__(self, session: str, key: str) -> None:
        super().__init__(
            f"{session}: {key!a} started and is not known to have ended",
            hints=[
                f"look whether it took effect, then: relight settle {session} {key} --result TEXT",
                f"or let it run again: relight settle {session} {key} --retry",
            ],
        )
        self.session, self.key = session, key


class ToolsChanged(Refused):
    """A pending call's tool is gone, or its effect was declared differently when the call was made."""

    code = "RL-4006"

    def __init__(self, session: str, diff: Sequence[str]) -> None:
        super().__init__(
            f"{session}: the tools changed under a pending call",
            evidence=diff,
            hints=[
                f"give the tool back, or decide the call: relight settle {session} CALL --result TEXT | --retry",
            ],
        )
        self.session = session
        self.diff = tuple(diff)


class HasForks(Refused):
    """Other sessions read part of their history from this one."""

    code = "RL-4007"

    def __init__(self, session: str, forks: Sequence[str]) -> None:
        super().__init__(
            f"{session}: {len(forks)} forks depend on it",
            evidence=[f"fork  {fork}" for fork in forks],
            hints=[f"relight rm {session} --with-forks"],
        )
        self.session = session
        self.forks = tuple(forks)


class Finished(Refused):
    """The session has its verdict; more can only be written by a new attempt."""

    code = "RL-4008"

    def __init__(self, session: str, status: str) -> None:
        super().__init__(
            f"{session}: is {status}; nothing more can be written to it",
            hints=["go on with a new prompt: loop(s, prompt=...)", "or begin anew: rl.session(name, resume=False)"],
        )
        self.session, self.status = session, status


# -- workspaces -----------------------------------------------------------------------------------------------


class WorkspaceUnusable(Refused):
    """The directory is missing, is not the one that was recorded, or must not be one."""

    code = "RL-4101"

    def __init__(self, name: str, path: str, why: str, *, hints: Iterable[str] = ()) -> None:
        super().__init__(f'failed to prepare workspace "{name}" ({path}): {why}', hints=hints)
        self.name = name
        self.path = path
        self.why = why


class SnapshotIncomplete(Refused):
    """Some paths could not be read, so there is no snapshot; the one before is still whole."""

    code = "RL-4102"

    def __init__(self, path: str, unreadable: Sequence[tuple[bytes, str]]) -> None:
        shown = [f"{one.decode('utf-8', 'backslashreplace') or '.'}: {why}" for one, why in unreadable[:20]]
        more = [f"and {len(unreadable) - 20} more"] if len(unreadable) > 20 else []
        super().__init__(
            f"{path}: {len(unreadable)} paths cannot be read; no snapshot was taken",
            evidence=[*shown, *more],
            hints=["make them readable, or name them in .relightignore"],
        )
        self.path = path
        self.unreadable = tuple(unreadable)


class RestoreConflict(Refused):
    """Paths were changed by somebody else since the session's last snapshot; nothing was touched."""

    code = "RL-4103"

    def __init__(self, path: str, conflicts: Sequence[tuple[bytes, str]]) -> None:
        shown = [f"{one.decode('utf-8', 'backslashreplace')}: {why}" for one, why in conflicts[:20]]
        more = [f"and {len(conflicts) - 20} more"] if len(conflicts) > 20 else []
        super().__init__(
            f"{path}: {len(conflicts)} paths are in conflict; nothing was restored",
            evidence=[*shown, *more],
            hints=["keep them: --theirs", "take the checkpoint's: --ours", "also delete what it lacks: --force"],
        )
        self.path = path
        self.conflicts = tuple(conflicts)


class RestoreUnfinished(Refused):
    """An earlier restore was interrupted; it is finished or undone before anything else is restored."""

    code = "RL-4104"

    def __init__(self, path: str, *, restore: str, target: str) -> None:
        super().__init__(
            f"{path}: an interrupted restore ({restore}) has to be ended first",
            evidence=[f"it was going to {target}"],
            hints=["do the same restore again, or undo it: relight undo REF"],
        )
        self.path = path
        self.restore = restore
        self.target = target


class OverQuota(Refused):
    """Capturing the files would pass a number of the policy; nothing was captured."""

    code = "RL-4105"

    def __init__(self, where: str, what: str, would_bytes: int, bound_bytes: int) -> None:
        super().__init__(
            f"{where}: {what} {would_bytes:,} bytes, and the policy's bound is {bound_bytes:,}; nothing was captured",
            hints=["see what could go: relight sweep --dry-run", "name what need not be kept in .relightignore"],
        )
        self.where = where
        self.what = what
        self.would_bytes = would_bytes
        self.bound_bytes = bound_bytes


class ThreadBusy(Refused):
    """Somebody else is writing to the thread. Nothing of this writer's was saved."""

    code = "RL-4301"

    def __init__(self, thread: str, why: str, *, evidence: Iterable[str] = ()) -> None:
        super().__init__(
            f"thread {thread!a} has another writer: {why}; nothing was saved",
            evidence=evidence,
            hints=["try again when it has ended, or wait in line: RelightSaver(rl, busy='wait')"],
        )
        self.thread = thread


class ThreadGone(Refused):
    """The thread was deleted while this writer still worked on it. A late write does not bring it back."""

    code = "RL-4302"

    def __init__(self, thread: str) -> None:
        super().__init__(
            f"thread {thread!a} was deleted, or never had this checkpoint; the write was not saved",
            hints=["to begin the thread anew, invoke the graph again"],
        )
        self.thread = thread


class BundleRefused(Refused):
    """A bundle that is damaged, forged, or meets another history under the same id. Nothing was taken in."""

    code = "RL-4201"

    def __init__(self, where: str, why: str, *, hints: Iterable[str] = ()) -> None:
        given = tuple(hints) or ("nothing was taken in; get the file again from where it was exported",)
        super().__init__(f"{where}: {why}", hints=given)
        self.where = where
        self.why = why


# -- the operator looks at the store --------------------------------------------------------------------------


class StoreError(RelightError):
    """The store could not do what was asked; nothing was acknowledged."""

    code = "RL-5000"
    exit_code = 5
    http_status = 503


class StoreUnavailable(StoreError):
    """The store does not answer, or answered with an error; the last acknowledged step is kept."""

    code = "RL-5001"


class Corrupt(StoreError):
    """Stored bytes are not what was written. `seq` names the broken step, `offered` a whole checkpoint."""

    code = "RL-5002"

    def __init__(
        self, what: str, *, session: str | None = None, seq: int | None = None, offered: str | None = None
    ) -> None:
        step = f"{session}@{seq}" if session and seq is not None else session
        hints = []
        if session and offered:
            hints.append(f"go on from the newest whole checkpoint: relight resume {session} --from-last-good")
            hints.append(f"look at it: relight show {offered}")
        hints.append(f"see all damage: relight verify{' ' + session if session else ''}")
        evidence = [f"offered instead: {offered}"] if offered else []
        super().__init__(f"{step}: {what}" if step else what, evidence=evidence, hints=hints)
        self.what = what
        self.session, self.seq = session, seq
        self.offered = offered


class NotAStore(StoreError):
    """The file is there, and it is something else."""

    code = "RL-5003"

    def __init__(self, where: str, why: str = "not a relight store") -> None:
        super().__init__(f"{where}: {why}", hints=["choose another file: set RELIGHT_STORE"])
        self.where = where


class NewerStore(StoreError):
    """The store was written by a newer relight; it is left alone."""

    code = "RL-5004"

    def __init__(self, where: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{where}: written by a newer relight (schema {found}, this one knows {known})",
            hints=["pip install --upgrade relight"],
        )
        self.found = found
        self.known = known


class StoreFull(StoreError):
    """No space left; the former state is whole."""

    code = "RL-5005"

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: no space left; nothing was written, what was saved before is whole",
            hints=[
                "free some space on that disk, then run it again; what is saved can be read meanwhile",
                "see what could go: relight sweep --dry-run; removing it needs about its own size in free space first",
            ],
        )
        self.where = where


class StoreReadOnly(StoreError):
    """The store can be read and not written."""

    code = "RL-5006"

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: read-only; nothing was written",
            hints=["check the permissions of the directory, or set RELIGHT_STORE to a writable path"],
        )
        self.where = where
