"""Branches of a conversation, with the methods of the SDK's own `AdvancedSQLiteSession`.

A branch is a fork: a relight session that stores only what it adds, and that `relight list` shows. The session of the
conversation registers its branches, each after its fork is complete: a crash before that leaves an unregistered fork,
which the next branch of the same name replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final

from relight.frameworks.openai_agents import items as decide
from relight.frameworks.openai_agents.awaiting import in_thread, read_newest, write
from relight.frameworks.openai_agents.items import BRANCHES, PREVIEW, Item
from relight.journal.codec import isolated
from relight.journal.fold import Fold
from relight.library.facade import Relight
from relight.sessions.shared import SharedSession, Write
from relight.values.checkpoint import Checkpoint

MAIN: Final = "main"
_CANDIDATES: Final = 8
"""checkpoints that are compared with the items of a new branch; if none is equal, the branch stores its items itself"""


class Branches:
    """The branches of one conversation. Which one is current is a property of this object, and not stored."""

    _rl: Relight
    _main: SharedSession
    _shared_sessions: dict[str, SharedSession]
    _current: str
    _join: Callable[..., SharedSession]

    def _begin_branches(self, main: SharedSession) -> None:
        self._main, self._shared_sessions, self._current = main, {MAIN: main}, MAIN

    @property
    def _shared(self) -> SharedSession:
        return self._shared_sessions[self._current]

    @property
    def branch(self) -> str:
        """Name of the current branch."""
        return self._current

    # -- the SDK's methods ------------------------------------------------------------------------------------

    async def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """Create a branch with everything before the user's n-th message, and switch to it; its name."""
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        source = self._shared
        items = await read_newest(source, lambda fold, _: [isolated(item) for item in fold.messages]) or []
        turns = decide.user_turns(items)
        if not 1 <= turn_number <= len(turns):
            raise ValueError(f"Turn {turn_number} does not contain a user message in branch '{self._current}'")
        taken = set(await read_newest(self._main, self._own) or ())
        name = branch_name or _unused(f"branch_from_turn_{turn_number}", taken)
        if name == MAIN or name in taken:
            raise ValueError(f"Branch '{name}' already exists")
        # The fork first, then its registration: a crash in between leaves no registered branch without a session.
        made = await in_thread(partial(self._fork, source, name, items[: turns[turn_number - 1]]))
        created = await in_thread(lambda: int(self._rl.sessions.get(made.name).created_at.timestamp() * 1000))
        await write(self._main, partial(self._registered, name=name, session=made.name, created=created))
        self._shared_sessions[name], self._current = made, name
        return name

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        """Like `create_branch_from_turn`, from the first user message that contains a text."""
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Read and write this branch from now on."""
        self._shared_sessions[branch_id] = await self._shared_of(branch_id)
        self._current = branch_id

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Delete a branch with its data; its name cannot be used again. With `force` also the current one."""
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == MAIN:
            raise ValueError("Cannot delete the 'main' branch")
        if branch_id == self._current and not force:
            message = f"Cannot delete current branch '{branch_id}'. Use force=True or switch branches first"
            raise ValueError(message)
        shared = await self._shared_of(branch_id)
        if branch_id == self._current:
            self._to_main()
        # The registration first: the other order could leave a registered branch without a session after a crash.
        await write(self._main, partial(decide.unbranch, name=branch_id))
        await in_thread(partial(shared.drop, with_forks=True))
        self._shared_sessions.pop(branch_id, None)

    async def list_branches(self) -> list[dict[str, Any]]:
        """List all branches: branch_id, message_count, user_turns, is_current, created_at."""
        listed = [await self._described(MAIN, self._main)]
        for name in await self._names():
            listed.append(await self._described(name, await self._shared_of(name)))
        return [one for one in listed if one is not None]

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """List the user's messages by turn."""
        shared = await self._shared_of(branch_id)
        turns = await read_newest(shared, _turns)
        if not turns:
            return []
        rows = await in_thread(lambda: self._rl.history.checkpoints(shared.name))
        return [{**turn, "timestamp": _when(rows, index)} for index, turn in turns]

    async def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        """List the user's messages that contain a text, in full."""
        turns = await self.get_conversation_turns(branch_id)
        found = [turn for turn in turns if decide.has_text(turn["full_content"], search_term)]
        return [{**turn, "content": decide.text_of(turn["full_content"])} for turn in found]

    # -- helpers ----------------------------------------------------------------------------------------------

    async def _names(self) -> dict[str, str]:
        """Branch -> session, without deleted branches."""

        found = await read_newest(self._main, self._own) or {}
        return {name: self._session_of(name) for name, is_there in found.items() if is_there}

    def _own(self, fold: Fold, _: object = None) -> dict[str, bool]:
        """The used names, and whether each still has a branch."""
        # A fork of this conversation has a copy of the registry; the branches in it belong to the original.
        branches = fold.state.get(BRANCHES, {})
        return {
            name: bool(entry)
            for name, entry in branches.items()
            if not entry or entry["session"] == self._session_of(name)
        }

    def _session_of(self, branch: str) -> str:
        """The session name of a branch, unique to this conversation and branch."""
        main = self._main.name
        digest = sha256(f"{len(main)}:{main}{branch}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return f"{main[:80]}.branch-{digest}"

    async def _shared_of(self, branch_id: str | None) -> SharedSession:
        if branch_id is None:
            return self._shared
        if branch_id == MAIN:
            return self._main
        session = (await self._names()).get(branch_id)
        if session is None:
            raise ValueError(f"Branch '{branch_id}' does not exist")
        return self._shared_sessions.get(branch_id) or self._join(session, begins=False)

    async def _described(self, name: str, shared: SharedSession) -> dict[str, Any] | None:
        def read(fold: Fold, _: object) -> tuple[int, int]:
            return len(fold.messages), len(decide.user_turns(fold.messages))

        counts = await read_newest(shared, read)
        if counts is None:
            return None
        created: datetime = await in_thread(lambda: self._rl.sessions.get(shared.name).created_at)
        return {
            "branch_id": name,
            "message_count": counts[0],
            "user_turns": counts[1],
            "is_current": name == self._current,
            "created_at": created.isoformat(),
        }

    async def _clear_branches(self) -> None:
        names = await self._names()
        self._to_main()
        for name, session in names.items():
            shared = self._shared_sessions.pop(name, None) or self._join(session, begins=False)
            await in_thread(partial(shared.drop, with_forks=True))

    def _to_main(self) -> None:
        self._current = MAIN

    async def _return_to_main(self) -> bool:
        """Switch to main if another process has cleared the conversation; whether it was so."""
        # Like the SDK's own session. Not if only the branch was deleted: what is added there is not meant for main.
        if self._current == MAIN or self._current in (await read_newest(self._main, self._own) or {}):
            return False
        self._shared_sessions.pop(self._current).forget()
        self._to_main()
        return True

    def _fork(self, source: SharedSession, branch: str, items: list[Item]) -> SharedSession:
        """A fork with exactly these items: of a checkpoint that has them, else of the head with a reset."""
        made = self._join(self._session_of(branch), begins=False)
        made.drop(with_forks=True)  # left by a crash before a branch of this name was registered
        made.forget()
        rl = self._rl
        rows = [row for row in rl.history.checkpoints(source.name) if row.message_count == len(items)]
        for row in reversed(rows[-_CANDIDATES:]):
            if rl.history.load(f"{source.name}@{row.seq}").messages == items:
                rl.history.fork(f"{source.name}@{row.seq}", name=made.name)
                break
        else:
            rl.history.fork(source.name, name=made.name)
        made.write(partial(decide.keep, items=items))
        return made

    def _registered(self, fold: Fold, *, name: str, session: str, created: int) -> Write:
        if name in self._own(fold):
            raise ValueError(f"Branch '{name}' already exists")
        return decide.branch(fold, name, session, at=created)


def _unused(name: str, taken: set[str]) -> str:
    return next(one for one in (name, *(f"{name}_{number}" for number in range(2, len(taken) + 3))) if one not in taken)


def _turns(fold: Fold, _: object) -> list[tuple[int, dict[str, Any]]]:
    """(index, description) of each user message."""
    turns = []
    for number, index in enumerate(decide.user_turns(fold.messages), 1):
        content = isolated(fold.messages[index].get("content", ""))
        text = decide.text_of(content)
        preview = text if len(text) <= PREVIEW else f"{text[:PREVIEW]}..."
        turns.append((index, {"turn": number, "content": preview, "full_content": content, "can_branch": True}))
    return turns


def _when(rows: Sequence[Checkpoint], index: int) -> str | None:
    """Time of the message at an index: that of the earliest checkpoint since when it has always been there."""
    having = list(takewhile(lambda row: row.message_count > index, reversed(rows)))
    return having[-1].created_at.isoformat() if having else None
