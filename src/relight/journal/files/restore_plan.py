"""Decides a restore: from the target, the disk and the session's last snapshot to a list of actions.

Guarantee: nothing is overwritten or deleted unless the safety snapshot holds it. What was changed by others since the
session's last snapshot is a conflict; what no snapshot of the session ever held stays, unless `exact`. Files of a
relight store are never touched: an older snapshot may hold a copy of one.

Manifests are flat mappings from path to entry. Paths that are equal in target and current may be missing from both, so
a caller may prune equal directories by their hash. The caller takes the safety snapshot and performs the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Final

from relight.values.snapshot import Action, Change, Choice, Decision, Entry, Kept

Manifest = Mapping[bytes, Entry]

STORE: Final = "part of a relight store: never restored"

RUNS_LATER_NAMES: Final = frozenset(
    {b".mcp.json", b".envrc", b".pre-commit-config.yaml", b".gitattributes", b".gitconfig", b".npmrc", b"conftest.py"}
)
RUNS_LATER_DIRS: Final = frozenset(
    {
        b".git",
        b".claude",
        b".codex",
        b".gemini",
        b".opencode",
        b".pi",
        b".cursor",
        b".vscode",
        b".idea",
        b".husky",
        b".githooks",
        b".devcontainer",
        b".direnv",
    }
)


def diff(before: Manifest, after: Manifest) -> tuple[Change, ...]:
    """Changes sorted by path. Directories appear only if they are created, removed or change their mode."""
    changes = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is not None and old.same(new):
            continue
        if old is None:
            changes.append(Change(path=path, what="added", after=new))
        elif new is None:
            changes.append(Change(path=path, what="deleted", before=old))
        else:
            changes.append(Change(path=path, what="changed", before=old, after=new))
    return tuple(changes)


def may_run_later(path: bytes) -> bool:
    """Whether some tool executes this file on its own later: hooks, settings of agents and editors."""
    parts = path.split(b"/")
    return parts[-1] in RUNS_LATER_NAMES or any(part in RUNS_LATER_DIRS for part in parts)


def ancestors(path: bytes) -> Iterator[bytes]:
    """The directories above a path, nearest first, without the root."""
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        yield path


def decide(
    *,
    target: Manifest,
    current: Manifest,
    last: Manifest,
    held: Set[bytes],
    stores: Set[bytes] = frozenset(),
    choice: Choice = "stop",
    exact: bool = False,
    paths: Iterable[bytes] = (),
    below: bool = True,
    take: Set[bytes] = frozenset(),
) -> Decision:
    """The whole plan. `held` are the paths held by some snapshot of the session, not counting the safety snapshot;
    `stores` those that belong to a relight store, on disk or in the target.

    With `paths` only these are restored, and with `below` everything under them. `take`: for these the checkpoint wins,
    whatever the choice for the others.
    """
    plan = _Plan(target, current, last, held, stores, choice, exact, take)
    chosen, on_the_way = _selector(tuple(paths), below)
    for path in sorted(target.keys() | current.keys()):
        wanted, found = target.get(path), current.get(path)
        if wanted is not None and wanted.same(found):
            continue
        if chosen(path) or (path in on_the_way and (found is None or found.kind != "dir")):
            plan.consider(path)
    plan.settle()
    return plan.decision()


def _selector(paths: tuple[bytes, ...], below: bool) -> tuple[Callable[[bytes], bool], Set[bytes]]:
    """Predicates: whether a path is one of the named ones or below one, and whether it is a directory above them."""
    if not paths:
        return (lambda path: True), frozenset()
    names = frozenset(paths)
    on_the_way = {parent for path in paths for parent in ancestors(path)}
    return (lambda path: path in names or (below and any(up in names for up in ancestors(path)))), on_the_way


class _Plan:
    """The plan being built. `consider` handles one path, `settle` conflicts between paths."""

    def __init__(
        self,
        target: Manifest,
        current: Manifest,
        last: Manifest,
        held: Set[bytes],
        stores: Set[bytes],
        choice: Choice,
        exact: bool,
        take: Set[bytes],
    ) -> None:
        self.target, self.current, self.last, self.held, self.stores = target, current, last, held, stores
        self.choice, self.exact, self.take = choice, exact, take
        self.writes: dict[bytes, Action] = {}
        self.deletes: dict[bytes, Action] = {}
        self.kept: dict[bytes, str] = {}
        self.conflicts: dict[bytes, str] = {}

    def consider(self, path: bytes) -> None:
        wanted, found = self.target.get(path), self.current.get(path)
        if self._is_store(path):
            self.kept[path] = STORE
        elif (why := self._left_out(path)) is not None:
            if found is not None and found.kind != "skip":
                self.kept[path] = f"left out of the checkpoint: {why}"
        elif wanted is not None:
            self._write(path, wanted, found)
        elif found is not None and found.kind not in ("dir", "skip"):
            self._delete(path, found)

    def _is_store(self, path: bytes) -> bool:
        return bool(self.stores) and any(at in self.stores for at in (path, *ancestors(path)))

    def _left_out(self, path: bytes) -> str | None:
        for at in (path, *ancestors(path)):
            entry = self.target.get(at)
            if entry is not None and entry.kind == "skip":
                return entry.ref.decode("ascii", "replace")
        return None

    def _choice(self, path: bytes) -> Choice:
        return "force" if path in self.take else self.choice

    def _write(self, path: bytes, wanted: Entry, found: Entry | None) -> None:
        if found is not None and found.kind == "skip":
            self._cannot(path, f"on disk and in no snapshot: {found.ref.decode('ascii', 'replace')}")
        # Equal to the session's last snapshot means that only the session wrote it, so nothing of anyone else is
        # overwritten.
        elif found is None or found.same(self.last.get(path)) or self._choice(path) in ("ours", "force"):
            self.writes[path] = Action(path=path, entry=wanted, found=found)
        elif self.choice == "theirs":
            self.kept[path] = "changed since the last snapshot; kept"
        else:
            self.conflicts[path] = "changed since the last snapshot"

    def _delete(self, path: bytes, found: Entry) -> None:
        # The session never captured it, so it belongs to someone else and is not deleted by default.
        if path not in self.held:
            if self.exact:
                self.deletes[path] = Action(path=path, found=found)
            else:
                self.kept[path] = "no snapshot of this session holds it"
        elif found.same(self.last.get(path)) or self._choice(path) == "force":
            self.deletes[path] = Action(path=path, found=found)
        elif self.choice == "stop":
            self.conflicts[path] = "changed since the last snapshot, and the checkpoint lacks it"
        else:
            self.kept[path] = "changed since the last snapshot; kept"

    def _cannot(self, path: bytes, why: str) -> None:
        """Not solvable by any option: the path stays, and only "stop" reports it as a conflict."""
        self.writes.pop(path, None)
        (self.conflicts if self.choice == "stop" else self.kept)[path] = why

    def settle(self) -> None:
        """Directories last: one is removed if all its content is; a path blocked by something that stays is not
        written."""
        pinned = self._pinned()
        # Children before parents: a directory is judged when everything in it is decided.
        for path in sorted(self.current, reverse=True):
            found = self.current[path]
            if found.kind != "dir":
                continue
            wanted = self.target.get(path)
            replaced = path in self.writes and wanted is not None and wanted.kind != "dir"
            if replaced and path in pinned:
                self._cannot(path, "a directory is in its place, and something in it stays")
            elif wanted is None and path not in pinned and self._dir_may_go(path):
                self.deletes[path] = Action(path=path, found=found)
            elif wanted is None:
                pinned.update(ancestors(path))
        for path in sorted(self.writes):
            if any(self._stays_in_the_way(up) for up in ancestors(path)):
                self._cannot(path, "something that stays is in the place of its directory")

    def _pinned(self) -> set[bytes]:
        """Directories above anything on disk that stays."""
        pinned: set[bytes] = set()
        for path, found in self.current.items():
            if found.kind != "dir" and path not in self.deletes:
                pinned.update(ancestors(path))
        return pinned

    def _dir_may_go(self, path: bytes) -> bool:
        return (self.exact or path in self.held) and self._left_out(path) is None and not self._is_store(path)

    def _stays_in_the_way(self, path: bytes) -> bool:
        found = self.current.get(path)
        return found is not None and found.kind != "dir" and path not in self.writes and path not in self.deletes

    def decision(self) -> Decision:
        writes = tuple(self.writes[path] for path in sorted(self.writes))
        return Decision(
            writes=writes,
            deletes=tuple(self.deletes[path] for path in sorted(self.deletes, reverse=True)),
            kept=tuple(Kept(path=path, reason=self.kept[path]) for path in sorted(self.kept)),
            conflicts=tuple(Kept(path=path, reason=self.conflicts[path]) for path in sorted(self.conflicts)),
            may_run_later=tuple(one.path for one in writes if may_run_later(one.path)),
        )
