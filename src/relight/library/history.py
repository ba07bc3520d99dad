"""`rl.history`: what a session did, checked, compared and exported; forked, rewound, undone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from relight.errors import Corrupt, NotFound, UsageError
from relight.history.loading import load_forked, load_returned
from relight.library.loaded import Loaded, loaded
from relight.library.noun import Noun
from relight.system.lazy_module import LazyModule
from relight.values.call import Call, PlannedCall
from relight.values.checkpoint import Checkpoint
from relight.values.info import SessionInfo
from relight.values.ref import check_label
from relight.values.snapshot import Choice

if TYPE_CHECKING:
    from relight.bundles import export as bundling
    from relight.bundles import import_ as importing
    from relight.bundles import readable
    from relight.files import restore as restoring
    from relight.files.operation import FilesReport
    from relight.history import abandoned_effects, queries
    from relight.history import compare as comparing
    from relight.history import effects_since as later_effects
    from relight.history import events as tailing
    from relight.history import fork as forking
    from relight.history import verify as verifying
    from relight.journal.files.undo_log import Operation
    from relight.operations import remove
    from relight.operations import send as sending
    from relight.supervision import hand_over
    from relight.supervision import start as starting
else:
    bundling, importing, readable, restoring = map(
        LazyModule,
        ("relight.bundles.export", "relight.bundles.import_", "relight.bundles.readable", "relight.files.restore"),
    )
    comparing = LazyModule("relight.history.compare")
    abandoned_effects, later_effects, tailing, queries, verifying, forking = map(
        LazyModule,
        (
            "relight.history.abandoned_effects",
            "relight.history.effects_since",
            "relight.history.events",
            "relight.history.queries",
            "relight.history.verify",
            "relight.history.fork",
        ),
    )
    sending, remove, starting, hand_over = map(
        LazyModule,
        (
            "relight.operations.send",
            "relight.operations.remove",
            "relight.supervision.start",
            "relight.supervision.hand_over",
        ),
    )


class History(Noun):
    """The steps of sessions: read, exported, gone back to."""

    # -- reading ----------------------------------------------------------------------------------------------

    def load(self, ref: str) -> Loaded:
        """The state at a session's head or at a checkpoint. Changes nothing."""
        found = self._found(ref)
        made = loaded(self._context, found)[0]
        if made.messages:
            return made
        return msgspec.structs.replace(made, messages=tailing.thread(self._context, found, made.seq))

    def messages(self, ref: str, *, format: str) -> list[dict[str, Any]]:
        """The conversation at the head or at a checkpoint as plain messages of a provider (`anthropic`, `openai_chat`,
        `openai_responses`), whichever program began it: for one that continues a coding agent's session. Calls without
        a result get one that says so; reasoning is left out."""
        return hand_over.plain_messages(self._context, self._found(ref), format)

    def events(
        self, ref: str, *, after: int = 0, upto: int | None = None, follow: bool = False
    ) -> Iterator[tailing.Event]:
        """Steps as events, oldest first: after < seq <= upto; with `follow` each further one until the session ends.
        A fork includes its ancestors' steps; of a checkpoint, the steps up to it."""
        found = self._found(ref)
        upto = _earlier(found.seq, upto)
        if not follow:
            return queries.steps(self._context, found, after=after, upto=upto)
        if upto is not None:
            raise UsageError(
                "following goes on until the session ends: name the session, without `upto` or a checkpoint"
            )
        return tailing.follow(self._context, found, after=after)

    def _poll(self, ref: str, *, after: int, upto: int | None, follow: bool) -> Iterator[tailing.Event | None]:
        """`events` for a caller that waits by itself: None says to wait a moment."""
        if follow and upto is None and "@" not in ref:
            return tailing.poll_events(self._context, self._found(ref), after=after)
        return self.events(ref, after=after, upto=upto, follow=follow)

    def checkpoint(self, ref: str) -> Checkpoint:
        """One checkpoint; a session's ref means its head. NotFound if it has none yet."""
        found = self._found(ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        rows = queries.checkpoint_rows(self._context, found, after=seq - 1, upto=seq) if seq else []
        if not rows:
            raise NotFound(f"{ref.partition('@')[0]}@{seq}", what="checkpoint")
        return rows[0]

    def checkpoints(self, ref: str, *, after: int = 0, upto: int | None = None) -> list[Checkpoint]:
        """The checkpoints of a session with after < seq <= upto, oldest first; a fork includes its ancestors'; of a
        checkpoint, those up to it."""
        found = self._found(ref)
        return queries.checkpoint_rows(self._context, found, after=after, upto=_earlier(found.seq, upto))

    def compare(self, a: str, b: str) -> comparing.Comparison:
        """Two checkpoints of any sessions: the messages that both begin with, and how each went on. Their files are
        compared by `rl.files.diff(a, b)`."""
        sides = [(self.load(ref), self._info(ref)) for ref in (a, b)]
        common = comparing.common_length(sides[0][0].messages, sides[1][0].messages)
        one, other = (
            comparing.Side(
                session=info,
                seq=state.seq,
                messages=state.messages[common:],
                result=state.result,
                turns=state.turns,
                usage=info.usage,
            )
            for state, info in sides
        )
        return comparing.Comparison(common=common, a=one, b=other)

    def search(self, ref: str, text: str, *, after: int = 0, most: int = 100) -> queries.Hits:
        """Steps of a session that contain a text; all are counted, the first `most` after a seq are returned."""
        return queries.search(self._context, self._found(ref), text, after=after, most=most)

    def operations(self, ref: str) -> list[Operation]:
        """The undo log, oldest first."""
        return restoring.operation_log(self._context, self._found(ref))

    def planned_calls(self, ref: str, *, after: Literal["rewind", "fork"]) -> list[PlannedCall]:
        """What would be done about the calls that are open at a checkpoint after a rewind to it, or in a fork of it.
        For a resume, use `rl.runs.plan`."""
        found = self._found(ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        load_it = load_returned if after == "rewind" else load_forked
        fold = load_it(self._context.store, found, seq)
        return abandoned_effects.planned(fold, agent=sending.has_transcript(self._context, found.identity))[0]

    def effects_since(self, session: str, seq: int) -> list[Call] | None:
        """Effects declared `once` that began after a checkpoint, on any branch: a rewind does not undo them. None if
        the journal is damaged, so that it is unknown."""
        try:
            return later_effects.effects_since(self._context.store, self._found(session), seq)
        except Corrupt:
            return None

    def verify(self, ref: str | None = None, *, files: bool = True) -> verifying.Report:
        """Check the digest chain of one session, or of all of them and the store itself; captured files too."""
        return verifying.verify(self._context, self._found(ref) if ref is not None else None, files=files)

    # -- going back -------------------------------------------------------------------------------------------

    def label(self, ref: str, label: str) -> str:
        """Label a checkpoint (the head if the ref names a session); returns its id. The newest use of a label wins."""
        label = check_label(label)
        found = self._found(ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        if seq < 1:
            raise UsageError("the session has no checkpoint to name yet")
        self._context.store.label(found.identity.id, seq, label, self._context.clock.now_us())
        return f"{found.identity.id}@{seq}"

    def fork(
        self,
        ref: str,
        *,
        name: str | None = None,
        prompt: str | None = None,
        edit: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
    ) -> SessionInfo:
        """A new session from a checkpoint, in O(1); the parent is not changed. `edit`: another text for its last
        message or tool result; what ran does not run again. Its files are copies of the checkpoint's: in `workspace`,
        filled now, or in a directory that its first start creates."""
        made = forking.fork(self._context, self._found(ref), name=name, prompt=prompt, edit=edit, workspace=workspace)
        return self._info(made.id)

    def rewind(
        self,
        ref: str,
        *,
        conversation: bool = True,
        files: bool = False,
        choice: Choice = "stop",
        take: Sequence[str] = (),
        again: str | Sequence[str] = (),
    ) -> Checkpoint:
        """Move a session back to a checkpoint: its conversation, its files, or both. Nothing is deleted. `choice`: what
        wins for files changed outside the session; for those in `take` the checkpoint does. `again`: open calls, by id
        or key, that ran since and may run again."""
        names = (again,) if isinstance(again, str) else tuple(again)
        report = restoring.rewind(
            self._context,
            self._found(ref),
            conversation=conversation,
            files=files,
            choice=choice,
            take=take,
            again=names,
        )
        assert report.checkpoint is not None
        return report.checkpoint

    def undo(self, ref: str, *, choice: Choice = "stop") -> FilesReport:
        """Undo the last rewind or restore; repeated, the one before it."""
        return restoring.undo(self._context, self._whole(ref, "undone"), choice=choice)

    def redo(self, ref: str, *, choice: Choice = "stop") -> FilesReport:
        """Revert the last undo; repeated, the one before it."""
        return restoring.undo(self._context, self._whole(ref, "redone"), redo=True, choice=choice)

    def forget(self, ref: str) -> remove.Forgotten:
        """Remove a checkpoint's labels, and those of its files that no other checkpoint continues from. The step
        remains."""
        return remove.drop_checkpoint(self._context, self._found(ref))

    # -- in and out -------------------------------------------------------------------------------------------

    def export(
        self,
        ref: str,
        path: str | os.PathLike[str],
        *,
        redact: bool = True,
        key: bytes | None = None,
        attachments: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> bundling.Exported:
        """Write a session with its ancestors and captured files to one new file, a bundle, without secrets, signed
        with a key if given.

        The transcript of a coding agent is included as the attachment `native.jsonl`.
        """
        found = self._found(ref)
        attached = {**starting.native_file(self._context, found), **(attachments or {})}
        return bundling.export_to(self._context, found, os.fspath(path), redact=redact, key=key, attachments=attached)

    def import_(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
        key: bytes | None = None,
    ) -> importing.Imported:
        """Import the session of a bundle, untrusted unless signed with this key. `workspace`: where its files go."""
        return importing.import_from(self._context, os.fspath(path), name=name, workspace=workspace, key=key)

    def attachment(self, path: str | os.PathLike[str], name: str) -> bytes:
        """One attachment of a bundle; the store is not used."""
        return importing.attachment(os.fspath(path), name)

    def documents(self, ref: str, *, redact: bool = True) -> Iterator[readable.Document]:
        """The session as (file name, document), one per step, without secrets."""
        return readable.export(self._context, self._found(ref), redact=redact)


def _earlier(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
