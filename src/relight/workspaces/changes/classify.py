"""Classifies names: captured, left out and why, read, or entered; and the notes of one run.

Nothing here changes the tracker's state: a run collects drafts, and only a run that met no error applies them.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from relight.errors import Refused
from relight.journal.files.store_marks import database_of
from relight.values.snapshot import Entry
from relight.workspaces.changes import ignore
from relight.workspaces.changes.capture import Captured, skip
from relight.workspaces.changes.ignore import SECRET_LEVEL, Include, Level, Rules
from relight.workspaces.changes.nodes import Node
from relight.workspaces.changes.scan import Stat, parse
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool.objects import is_git
from relight.workspaces.restore.openat import MAX_DEPTH, open_directory, open_file
from relight.workspaces.secret_names import is_hidden
from relight.workspaces.store_detection import MARK_ENTRY, Stores

IGNORE_FILES: Final = frozenset({b".gitignore", b".relightignore"})
META_NAMES: Final = IGNORE_FILES | {MARK_ENTRY}
"""names that affect the whole directory they are in"""
IGNORE_FILE_MAX_BYTES: Final = 1024 * 1024
PATH_MAX_BYTES: Final = 3800
"""below the kernel's limit, with room for a temporary name"""
TEMPORARY: Final = b".relight-tmp-"
"""prefix of temporary files of a restore: never captured"""


class Draft:
    """The new state of one directory."""

    __slots__ = ("block", "changes", "node", "recheck", "stats")

    def __init__(self, node: Node, block: bytes, stats: dict[bytes, Stat] | None = None) -> None:
        self.node, self.block = node, block
        self.stats = parse(block) if stats is None else stats
        self.changes: dict[bytes, Entry | None] = {}
        self.recheck: set[bytes] = set()


class Job(NamedTuple):
    """A file to be read."""

    draft: Draft
    path: bytes
    name: bytes
    former: Entry | None


class Run:
    """What one run has found so far."""

    def __init__(self, policy: TreePolicy) -> None:
        self.policy = policy
        self.drafts: dict[bytes, Draft] = {}
        self.new_nodes: dict[bytes, Node] = {}
        self.dropped: set[bytes] = set()
        self.forced: set[bytes] = set()
        """directories in which every name is classified again, because the rules changed"""
        self.rescan: set[bytes] = set()
        self.jobs: list[Job] = []
        self.modes: dict[bytes, int] = {}
        self.repositories: set[bytes] = set()
        self.unreadable: list[tuple[bytes, str]] = []
        self.exclude: list[int] = []
        """stat of .git/info/exclude"""
        self.walked = False
        self.read_bytes = 0
        self.classified = 0
        self._new: list[bytes] = []
        self._deadline = time.monotonic() + policy.budget_seconds

    @property
    def found_nothing(self) -> bool:
        """Whether nothing differs from the cached state."""
        return not (self.drafts or self.new_nodes or self.modes or self.dropped or self.walked)

    @property
    def has_new(self) -> bool:
        return bool(self._new)

    def pop_new(self) -> list[bytes]:
        new, self._new = self._new, []
        return list(dict.fromkeys(new))

    def enter(self, node: Node) -> None:
        self.new_nodes[node.path] = node
        self._new.append(node.path)

    def force_below(self, path: bytes, nodes: Collection[bytes]) -> None:
        below = [one for one in nodes if not path or one.startswith(path + b"/")]
        self.forced.update(below)
        self._new.extend(one for one in below if one != path)

    def mark_gone(self, draft: Draft, name: bytes, nodes: Collection[bytes]) -> None:
        if name in (draft.node.entries or ()):
            draft.changes[name] = None
        path = join(draft.node.path, name)
        if path in nodes:
            self.dropped.add(path)

    def record_capture(self, job: Job, found: Captured) -> None:
        """Record the result of reading a file."""
        if found.recheck:
            job.draft.recheck.add(job.name)
        if found.entry is None:
            if job.former is not None:
                job.draft.changes[job.name] = None
        elif found.entry != job.former:
            job.draft.changes[job.name] = found.entry
        else:
            job.draft.changes.pop(job.name, None)
        if found.entry is not None and found.entry.kind == "skip":
            if found.entry.ref == b"unreadable":
                self.unreadable.append((job.path, "permission denied or unreadable"))
            elif found.entry.ref == b"store" and found.entry != job.former:
                self._skip_beside(job.draft, job.name)

    def _skip_beside(self, draft: Draft, database: bytes) -> None:
        """A file turned out to be a store's database: files beside it may have been captured before it was one."""
        for name in draft.stats:
            if database_of(name) == database:
                draft.changes[name] = skip(name, "store")
                self.drop(join(draft.node.path, name))

    def drop(self, path: bytes) -> None:
        """Stop capturing a directory and everything in it."""
        self.dropped.add(path)
        self.new_nodes.pop(path, None)

    def is_over_budget(self) -> bool:
        return self.read_bytes > self.policy.budget_bytes or time.monotonic() > self._deadline


class Classifier:
    """Decides whether and how a name is captured."""

    def __init__(self, root_fd: int, policy: TreePolicy, stores: Stores) -> None:
        self._root_fd, self._policy, self.stores = root_fd, policy, stores
        self.recheck_all = False

    def classify(
        self,
        run: Run,
        draft: Draft,
        entries: Mapping[bytes, Entry],
        name: bytes,
        found: Stat,
        old: Stat | None,
        nodes: Mapping[bytes, Node],
    ) -> None:
        """Classify a name that is new, has another stat, or has to be checked again."""
        run.classified += 1
        if run.classified > self._policy.max_names:
            raise Refused(
                f"more than {self._policy.max_names} names in the workspace; ignore what need not be captured"
            )
        node = draft.node
        path = join(node.path, name)
        if not node.path and is_git(name):
            run.repositories.add(b"")
        if name.startswith(TEMPORARY) or (not node.path and name == b".git"):
            return
        if name == b".git":
            run.repositories.add(node.path)
        former = entries.get(name)
        entry = self._skip_entry(node, path, name, found)
        is_dir = stat.S_ISDIR(found[0])
        if entry is None and is_dir:
            self._directory(run, path, found, old, nodes)
            return
        if path in nodes:
            run.dropped.add(path)
        if entry is None and stat.S_ISLNK(found[0]):
            entry = self._link(node.path, name)
        if entry is not None:
            if entry != former:
                draft.changes[name] = entry
            if entry.ref == b"unreadable" and entry.kind == "skip":
                run.unreadable.append((path, "it cannot be read"))
        elif old != found or name in node.recheck or former is None or former.kind not in ("file", "big"):
            run.jobs.append(Job(draft, path, name, former))

    def _directory(self, run: Run, path: bytes, found: Stat, old: Stat | None, nodes: Mapping[bytes, Node]) -> None:
        mode = found[0] & 0o7777
        known = nodes.get(path)
        if known is None or old is None or old[4] != found[4]:
            if known is not None:
                run.dropped.add(path)
            run.enter(Node(path, mode))
        elif known.mode != mode:
            run.modes[path] = mode

    def _skip_entry(self, node: Node, path: bytes, name: bytes, found: Stat) -> Entry | None:
        mode = found[0]
        if mode == 0:
            return skip(name, "unreadable")
        if self.stores.is_store_path(path, name):
            return skip(name, "store")
        if not node.path and is_git(name):
            return skip(name, "git")  # another spelling, which some file systems treat as the repository itself
        if len(path) > PATH_MAX_BYTES or path.count(b"/") >= MAX_DEPTH - 1:
            return skip(name, "depth")
        is_dir = stat.S_ISDIR(mode)
        rules = node.rules
        verdict = rules.verdict(path, name, is_dir) if rules is not None else None
        if verdict is not None and not (is_dir and rules is not None and rules.include.reaches_into(path)):
            return skip(name, verdict)
        if is_dir or stat.S_ISLNK(mode):
            return None
        if not stat.S_ISREG(mode):
            return skip(name, "fifo" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device")
        if found[1] > self._policy.max_file_bytes:
            return skip(name, "too large", found[1])
        return None

    def _link(self, parent: bytes, name: bytes) -> Entry:
        try:
            fd = open_directory(self._root_fd, parent)
        except OSError:
            return skip(name, "changing")
        try:
            target = os.readlink(name, dir_fd=fd)
        except OSError:
            return skip(name, "changing")
        finally:
            os.close(fd)
        return skip(name, "secret") if is_hidden(target) else Entry(name=name, kind="link", ref=target)

    def is_gone(self, error: int) -> bool:
        return error in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)

    # -- rules ------------------------------------------------------------------------------------------------

    def rules(self, node: Node, names: Collection[bytes], above: Rules | None, include: Include) -> Rules:
        """The rules of a directory: its parent's and its own ignore files."""
        path = node.path
        if above is None:
            exclude = Level(b"", self._read_lines(b".git/info/exclude"))
            rules = Rules(include, (SECRET_LEVEL,), (exclude,) if exclude else ())
        else:
            rules = above
            if above.verdict(path, path.rpartition(b"/")[2], True) is not None:
                rules = above.inside_ignored()
        git = Level(path, self._read_lines(join(path, b".gitignore"))) if b".gitignore" in names else None
        own = Level(path, self._read_lines(join(path, b".relightignore"))) if b".relightignore" in names else None
        return rules.below(git, own)

    def _read_lines(self, path: bytes) -> list[bytes]:
        try:
            fd = open_file(self._root_fd, path)
        except OSError:
            return []
        try:
            return ignore.lines(os.read(fd, IGNORE_FILE_MAX_BYTES))
        except OSError:
            return []
        finally:
            os.close(fd)


def join(parent: bytes, name: bytes) -> bytes:
    return parent + b"/" + name if parent else name
