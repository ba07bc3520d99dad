"""Finds what may have changed: by hints of the watcher or by a walk, then by comparing stats.

Both ways end in the same drafts (`classify`), so they give the same answer. Nothing here changes the cached state,
except for rules and entries that are loaded on the way.
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
from relight.workspaces.changes.classify import IGNORE_FILES, META_NAMES, Classifier, Draft, Run
from relight.workspaces.changes.ignore import Include, Rules
from relight.workspaces.changes.nodes import Node
from relight.workspaces.changes.scan import scan, stat_of
from relight.workspaces.changes.state import TreeState
from relight.workspaces.changes.watch import Hints, Watcher
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool.pool import Pool
from relight.workspaces.restore.openat import MAX_DEPTH, exists, open_directory
from relight.workspaces.secret_names import is_hidden, without_secrets

MAX_NAMES: Final = 256
"""with more hinted names than this a directory is scanned"""

Tier = Literal["watch", "walk", "full"]


class ChangeFinder:
    """Finds changes in one root."""

    def __init__(self, root: bytes, root_fd: int, pool: Pool, policy: TreePolicy, classifier: Classifier) -> None:
        self.root, self.root_fd, self.pool, self.policy, self.classifier = root, root_fd, pool, policy, classifier
        self.include = Include(pattern.encode() for pattern in policy.include)
        self.state = TreeState()
        self.watcher: Watcher | None = None
        self.must_walk = True
        self._next_audit = 0.0

    def find(self, run: Run) -> Tier:
        """Fill the run with everything that may differ from the cached state; returns how it was found."""
        hints = self.watcher.drain() if self.watcher is not None else None
        exclude = self._exclude_stat()
        first = not self.state.nodes
        if first:
            self.state.nodes[b""] = Node(b"", 0)
        if self.classifier.recheck_all or exclude != self.state.exclude:
            self.state.nodes[b""].rules = None
            run.forced.update(self.state.nodes)
        run.exclude = exclude
        audit = hints is not None and time.monotonic() >= self._next_audit
        if hints is None or self.must_walk or run.forced or audit:
            self._walk(run, list(self.state.nodes))
            if audit and hints is not None and not self.must_walk and not run.forced:
                self._audit_watcher(run, hints)
            self._next_audit = time.monotonic() + self.policy.audit_seconds
        else:
            self._apply_hints(run, hints)
        self._recheck_pending(run)
        root_mode = stat.S_IMODE(os.fstat(self.root_fd).st_mode)
        if self.state.nodes[b""].mode != root_mode:
            run.modes[b""] = root_mode
        return "full" if first else "watch" if not run.walked else "walk"

    def _walk(self, run: Run, wave: list[bytes]) -> None:
        """Scan these directories, then the new ones found in them, and so on."""
        for _ in range(MAX_DEPTH):
            if not wave:
                return
            run.walked = True
            self._scan(run, wave)
            wave = run.pop_new()
        raise Refused(f"directories deeper than {MAX_DEPTH} below {os.fsdecode(self.root)}")

    def _scan(self, run: Run, wave: list[bytes]) -> None:
        if self.watcher is not None:
            self.watcher.add(wave)
        known = [self._node(run, path) for path in wave]
        blocks = [b"" if node.path in run.forced else node.block for node in known]
        by_path = dict(zip(wave, known, strict=True))
        for path, block, error in scan(self.root_fd, wave, blocks):
            if error:
                self._record_scan_error(run, path, error)
            else:
                self._compare_directory(run, by_path[path], without_secrets(block))

    def _node(self, run: Run, path: bytes) -> Node:
        return run.new_nodes.get(path) or self.state.nodes[path]

    def _record_scan_error(self, run: Run, path: bytes, error: int) -> None:
        """Report a directory that cannot be read; one that vanished is handled by its parent's scan."""
        if not self.classifier.is_gone(error) or not path:
            run.unreadable.append((path, os.strerror(error)))
            if path:
                self._leave_out(run, path, "unreadable", recheck=True)
        elif (parent := path.rpartition(b"/")[0]) in self.state.nodes and parent not in run.drafts:
            run.rescan.add(parent)

    def _leave_out(self, run: Run, path: bytes, reason: SkipReason, *, recheck: bool) -> None:
        """Record in its parent that a directory is left out: unreadable, or a store's."""
        parent, _, name = path.rpartition(b"/")
        node = self._node(run, parent)
        if parent not in run.drafts:
            node.load_entries(self.pool)
            run.drafts[parent] = Draft(node, node.block, dict(node.stats))
        entry = skip(name, reason)
        if (node.entries or {}).get(name) != entry:
            run.drafts[parent].changes[name] = entry
        if recheck:
            run.drafts[parent].recheck.add(name)
        run.drop(path)

    def _apply_hints(self, run: Run, hints: Hints) -> None:
        """Compare the hinted names; whole directories if a watch was lost or the names are many."""
        whole = [path for path in hints.lost if path in self.state.nodes]
        for path, names in hints.names.items():
            node = self.state.nodes.get(path)
            if node is None or path in hints.lost:
                continue
            has_meta_name = names & META_NAMES or any(name.endswith(b".seg") or is_hidden(name) for name in names)
            if len(names) > MAX_NAMES or has_meta_name or not self._is_exact(node):
                whole.append(path)
            else:
                self._compare_names(run, node, names | node.recheck)
        if whole or run.has_new:
            self._walk_new(run, whole)

    def _is_exact(self, node: Node) -> bool:
        """Whether a name leads to a file only as it is listed. Where case is folded, a file renamed from `Foo` to `foo`
        is still found as `Foo`, so that only the whole listing tells what is there. Asked once of each directory."""
        for name in () if node.is_exact else node.stats:
            other = name.swapcase()
            if other != name and other not in node.stats and self._exists(node.path, name):
                node.is_exact = not self._exists(node.path, other)
                break
        return node.is_exact

    def _exists(self, directory: bytes, name: bytes) -> bool:
        try:
            fd = open_directory(self.root_fd, directory)
        except OSError:
            return False
        try:
            return exists(fd, name)
        finally:
            os.close(fd)

    def _walk_new(self, run: Run, whole: list[bytes]) -> None:
        walked = run.walked
        self._walk(run, [*dict.fromkeys([*whole, *run.pop_new()])])
        run.walked = walked

    def _recheck_pending(self, run: Run) -> None:
        """Check names that are pending from the last run, and parents of vanished directories."""
        for path in self.state.recheck - run.drafts.keys():
            node = self.state.nodes.get(path)
            if node is not None:
                self._compare_names(run, node, set(node.recheck))
        for path in run.rescan - run.drafts.keys():
            run.forced.add(path)
            self._scan(run, [path])
        self._walk_new(run, [])

    def _audit_watcher(self, run: Run, hints: Hints) -> None:
        """Audit: if the walk found changes that the watcher did not report, stop using the watcher."""
        late = self.watcher.drain() if self.watcher is not None else None
        if self.watcher is None or late is None:
            return
        reported = hints.names.keys() | hints.lost | late.names.keys() | late.lost | self.state.recheck
        missed = [path for path, draft in run.drafts.items() if _differs(draft) and path not in reported]
        if missed and not run.new_nodes.keys() & set(missed):
            self.watcher.disable(f"it missed {len(missed)} directories")
        else:
            self._apply_hints(run, late)

    # -- comparing --------------------------------------------------------------------------------------------

    def _compare_directory(self, run: Run, node: Node, block: bytes) -> None:
        forced = node.path in run.forced
        draft = Draft(node, block)
        if node.path and self.classifier.stores.is_store_directory(node.path, draft.stats):
            self._leave_out(run, node.path, "store", recheck=False)
            return
        run.drafts[node.path] = draft
        old, new = node.stats, draft.stats
        if node.rules is None or any(old.get(name) != new.get(name) for name in IGNORE_FILES):
            changed = node.rules is not None or bool(old)
            node.rules = self._rules(run, node, new)
            if changed and any(old.get(name) != new.get(name) for name in IGNORE_FILES):
                forced = True
                run.force_below(node.path, self.state.nodes)
        entries = node.load_entries(self.pool)
        for name, found in new.items():
            if forced or name in node.recheck or old.get(name) != found:
                self.classifier.classify(run, draft, entries, name, found, old.get(name), self.state.nodes)
        for name in old.keys() - new.keys():
            run.mark_gone(draft, name, self.state.nodes)

    def _compare_names(self, run: Run, node: Node, names: set[bytes]) -> None:
        try:
            fd = open_directory(self.root_fd, node.path)
        except OSError as error:
            self._record_scan_error(run, node.path, error.errno or 0)
            return
        draft = Draft(node, b"", dict(node.stats))
        run.drafts[node.path] = draft
        if node.rules is None:
            node.rules = self._rules(run, node, node.stats)
        entries = node.load_entries(self.pool)
        try:
            for name in names:
                try:
                    found = stat_of(os.stat(name, dir_fd=fd, follow_symlinks=False))
                except FileNotFoundError:
                    draft.stats.pop(name, None)
                    run.mark_gone(draft, name, self.state.nodes)
                    continue
                old = node.stats.get(name)
                draft.stats[name] = found
                if old != found or name in node.recheck:
                    self.classifier.classify(run, draft, entries, name, found, old, self.state.nodes)
        finally:
            os.close(fd)

    def _rules(self, run: Run, node: Node, names: Collection[bytes]) -> Rules:
        if not node.path:
            return self.classifier.rules(node, names, None, self.include)
        above = self._node(run, node.path.rpartition(b"/")[0])
        if above.rules is None:
            above.rules = self._rules(run, above, above.stats)
        return self.classifier.rules(node, names, above.rules, self.include)

    def _exclude_stat(self) -> list[int]:
        try:
            found = os.stat(".git/info/exclude", dir_fd=self.root_fd)
        except OSError:
            return []
        return [found.st_mtime_ns, found.st_size, found.st_ino]


def _differs(draft: Draft) -> bool:
    """Whether a scan found other stats than are cached."""
    return draft.stats != draft.node.stats
