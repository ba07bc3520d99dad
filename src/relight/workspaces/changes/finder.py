"""Find what may have changed: hints of the watcher or a walk, then a look at every name that differs.

All ways end in the same drafts (looking.py), so they have one answer. Nothing here changes the memory, but for rules
and entries that are read on the way.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection
from typing import Final, Literal

from relight.errors import Refused
from relight.values.snapshot import SkipReason
from relight.workspaces.changes.capture import skip
from relight.workspaces.changes.classify import IGNORE_FILES, TELLING, Draft, Look, Run
from relight.workspaces.changes.ignore import Include, Rules
from relight.workspaces.changes.memory import Memory
from relight.workspaces.changes.nodes import Node
from relight.workspaces.changes.scan import scan, stat_of
from relight.workspaces.changes.watch import Hints, Watcher
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool.pool import Pool
from relight.workspaces.restore.openat import MAX_DEPTH, open_directory
from relight.workspaces.secret_names import is_hidden, without_secrets

MAX_NAMES: Final = 256
"""more hinted names in one directory than this: scan it"""

Tier = Literal["watch", "walk", "full"]


class Finder:
    """Looks at one root."""

    def __init__(self, root: bytes, root_fd: int, pool: Pool, policy: TreePolicy, look: Look) -> None:
        self.root, self.root_fd, self.pool, self.policy, self.look = root, root_fd, pool, policy, look
        self.include = Include(pattern.encode() for pattern in policy.include)
        self.memory = Memory()
        self.watcher: Watcher | None = None
        self.watch_misses = 0
        self.must_walk = True
        self._audit_at = 0.0

    def find(self, run: Run) -> Tier:
        """Fill the run with everything that may differ from the memory; how it was found."""
        hints = self.watcher.drain() if self.watcher is not None else None
        exclude = self._exclude_stat()
        first = not self.memory.nodes
        if first:
            self.memory.nodes[b""] = Node(b"", 0)
        if self.look.force_all or exclude != self.memory.exclude:
            self.memory.nodes[b""].rules = None
            run.forced.update(self.memory.nodes)
        run.exclude = exclude
        audit = hints is not None and time.monotonic() >= self._audit_at
        if hints is None or self.must_walk or run.forced or audit:
            self._walk(run, list(self.memory.nodes))
            if audit and hints is not None and not self.must_walk and not run.forced:
                self._judge(run, hints)
            self._audit_at = time.monotonic() + self.policy.audit_seconds
        else:
            self._follow(run, hints)
        self._look_again(run)
        root_mode = stat.S_IMODE(os.fstat(self.root_fd).st_mode)
        if self.memory.nodes[b""].mode != root_mode:
            run.modes[b""] = root_mode
        return "full" if first else "watch" if not run.walked else "walk"

    def _walk(self, run: Run, wave: list[bytes]) -> None:
        """Scan these directories, then the new ones found in them, and so on down."""
        for _ in range(MAX_DEPTH):
            if not wave:
                return
            run.walked = True
            self._scan(run, wave)
            wave = run.take_new()
        raise Refused(f"directories deeper than {MAX_DEPTH} below {os.fsdecode(self.root)}")

    def _scan(self, run: Run, wave: list[bytes]) -> None:
        if self.watcher is not None:
            self.watcher.add(wave)
        known = [self._node(run, path) for path in wave]
        blocks = [b"" if node.path in run.forced else node.block for node in known]
        by_path = dict(zip(wave, known, strict=True))
        for path, block, error in scan(self.root_fd, wave, blocks):
            if error:
                self._unscanned(run, path, error)
            else:
                self._look_into(run, by_path[path], without_secrets(block))

    def _node(self, run: Run, path: bytes) -> Node:
        return run.new_nodes.get(path) or self.memory.nodes[path]

    def _unscanned(self, run: Run, path: bytes, error: int) -> None:
        """A directory that went away is seen by its parent's scan; another error is told."""
        if not self.look.is_gone(error) or not path:
            run.unreadable.append((path, os.strerror(error)))
            if path:
                self._leave_out(run, path, "unreadable", again=True)
        elif (parent := path.rpartition(b"/")[0]) in self.memory.nodes and parent not in run.drafts:
            run.rescan.add(parent)

    def _leave_out(self, run: Run, path: bytes, reason: SkipReason, *, again: bool) -> None:
        """A directory that cannot be read, or is a store's, is listed by its parent as left out."""
        parent, _, name = path.rpartition(b"/")
        node = self._node(run, parent)
        if parent not in run.drafts:
            node.loaded(self.pool)
            run.drafts[parent] = Draft(node, node.block, dict(node.stats))
        entry = skip(name, reason)
        if (node.entries or {}).get(name) != entry:
            run.drafts[parent].changes[name] = entry
        if again:
            run.drafts[parent].again.add(name)
        run.leave(path)

    def _follow(self, run: Run, hints: Hints) -> None:
        """Look at the names the kernel told; whole directories where a watch was lost or the names are many."""
        whole = [path for path in hints.lost if path in self.memory.nodes]
        for path, names in hints.names.items():
            node = self.memory.nodes.get(path)
            if node is None or path in hints.lost:
                continue
            is_telling = names & TELLING or any(name.endswith(b".seg") or is_hidden(name) for name in names)
            if len(names) > MAX_NAMES or is_telling:
                whole.append(path)
            else:
                self._look_at_names(run, node, names | node.again)
        if whole or run.has_new:
            self._follow_down(run, whole)

    def _follow_down(self, run: Run, whole: list[bytes]) -> None:
        walked = run.walked
        self._walk(run, [*dict.fromkeys([*whole, *run.take_new()])])
        run.walked = walked

    def _look_again(self, run: Run) -> None:
        """Names whose last look was not conclusive, where nothing else led to them; parents of vanished directories."""
        for path in self.memory.again - run.drafts.keys():
            node = self.memory.nodes.get(path)
            if node is not None:
                self._look_at_names(run, node, set(node.again))
        for path in run.rescan - run.drafts.keys():
            run.forced.add(path)
            self._scan(run, [path])
        self._follow_down(run, [])

    def _judge(self, run: Run, hints: Hints) -> None:
        """The audit: a walk found what the watcher did not tell. It is not asked again."""
        late = self.watcher.drain() if self.watcher is not None else None
        if self.watcher is None or late is None:
            return
        told = hints.names.keys() | hints.lost | late.names.keys() | late.lost | self.memory.again
        missed = [path for path, draft in run.drafts.items() if _differs(draft) and path not in told]
        if missed and not run.new_nodes.keys() & set(missed):
            self.watch_misses += len(missed)
            self.watcher.distrust(f"it missed {len(missed)} directories")
        else:
            self._follow(run, late)

    # -- looking ----------------------------------------------------------------------------------------------

    def _look_into(self, run: Run, node: Node, block: bytes) -> None:
        forced = node.path in run.forced
        draft = Draft(node, block)
        if node.path and self.look.stores.holds(node.path, draft.stats):
            self._leave_out(run, node.path, "store", again=False)
            return
        run.drafts[node.path] = draft
        old, new = node.stats, draft.stats
        if node.rules is None or any(old.get(name) != new.get(name) for name in IGNORE_FILES):
            changed = node.rules is not None or bool(old)
            node.rules = self._rules(run, node, new)
            if changed and any(old.get(name) != new.get(name) for name in IGNORE_FILES):
                forced = True
                run.force_below(node.path, self.memory.nodes)
        entries = node.loaded(self.pool)
        for name, found in new.items():
            if forced or name in node.again or old.get(name) != found:
                self.look.at(run, draft, entries, name, found, old.get(name), self.memory.nodes)
        for name in old.keys() - new.keys():
            run.gone(draft, name, self.memory.nodes)

    def _look_at_names(self, run: Run, node: Node, names: set[bytes]) -> None:
        try:
            fd = open_directory(self.root_fd, node.path)
        except OSError as error:
            self._unscanned(run, node.path, error.errno or 0)
            return
        draft = Draft(node, b"", dict(node.stats))
        run.drafts[node.path] = draft
        if node.rules is None:
            node.rules = self._rules(run, node, node.stats)
        entries = node.loaded(self.pool)
        try:
            for name in names:
                try:
                    found = stat_of(os.stat(name, dir_fd=fd, follow_symlinks=False))
                except FileNotFoundError:
                    draft.stats.pop(name, None)
                    run.gone(draft, name, self.memory.nodes)
                    continue
                old = node.stats.get(name)
                draft.stats[name] = found
                if old != found or name in node.again:
                    self.look.at(run, draft, entries, name, found, old, self.memory.nodes)
        finally:
            os.close(fd)

    def _rules(self, run: Run, node: Node, names: Collection[bytes]) -> Rules:
        if not node.path:
            return self.look.rules(node, names, None, self.include)
        above = self._node(run, node.path.rpartition(b"/")[0])
        if above.rules is None:
            above.rules = self._rules(run, above, above.stats)
        return self.look.rules(node, names, above.rules, self.include)

    def _exclude_stat(self) -> list[int]:
        try:
            found = os.stat(".git/info/exclude", dir_fd=self.root_fd)
        except OSError:
            return []
        return [found.st_mtime_ns, found.st_size, found.st_ino]


def _differs(draft: Draft) -> bool:
    """Whether a scan found other stats than were known."""
    return draft.stats != draft.node.stats
