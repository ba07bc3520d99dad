"""Partial output of a reply that is still being written: `with s.stream() as out: out.write(text)`.

    buffer  ->  one step for each second or 4 kB of text  ->  the reply, which replaces it

A step holds only the text that is new. Readers see all of it as the partial result (`tail --follow`, the page, `load`)
until the reply is appended; a new stream starts empty. After a death the text so far is there, and the model is asked
again. Nothing commits while the program does not write: text that waits in the buffer is visible with the next `write`,
or when the block ends. Where a session's data is redacted, whole lines are committed: a secret cut in two would not be
recognised.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from relight.journal.jsonable import check_text
from relight.sessions.session_writer import SessionWriter
from relight.values.step import Changes

SECONDS: Final = 1.0
BYTES: Final = 4096


class Stream:
    """The text of one reply in progress. Not a step itself: `append` the reply when it is whole."""

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer
        self._waiting: list[str] = []
        self._size = 0
        self._begun = False
        self._saved_us = writer.context.clock.instant().us

    def __repr__(self) -> str:
        return f"<relight stream of {self._writer.name}, {self._size} bytes not saved yet>"

    def write(self, text: str) -> None:
        """Add text. It is committed with what waits once that is a second old or 4 kB long."""
        check_text(text, "the text of a stream")
        self._waiting.append(text)
        self._size += len(text.encode("utf-8", "surrogatepass"))
        age = (self._writer.context.clock.instant().us - self._saved_us) / 1e6
        if self._size >= BYTES or age >= SECONDS:
            self._save(whole_lines=self._writer.recorder.recording.data)

    def _save(self, *, whole_lines: bool) -> None:
        text = "".join(self._waiting)
        end = text.rfind("\n") + 1 if whole_lines else len(text)
        if end:
            self._writer.record("mark", Changes(stream=[not self._begun, text[:end]]))
            self._begun = True
        # After the commit: one that fails leaves the text here, for the next to take along.
        rest = text[end:]
        self._waiting, self._size = [rest] if rest else [], len(rest.encode("utf-8", "surrogatepass"))
        self._saved_us = self._writer.context.clock.instant().us

    def __enter__(self) -> Stream:
        self._writer.refuse_in_batch("stream")
        self._writer.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting and (error is None or isinstance(error, Exception)):
            self._save(whole_lines=False)
