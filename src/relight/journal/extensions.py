"""What agents and frameworks teach the journal: formats of native transcripts, how an agent's end is read, and where a
framework's records hold a conversation.

`relight.wiring` installs them. So the journal imports no agent and no framework, each of which brings what only it
knows, and a command that reads no conversation loads none of them. They are pure code: no agent and no framework has to
be installed to read a session of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from relight.journal.failures.finding import Finding
    from relight.journal.formats.format import Format, ProviderDict
    from relight.values.ending import Ending


class EndReader(Protocol):
    """What is known about the ends of one agent, whose structured output is complete: if it names no error, its
    messages do not name it better. A module may be one."""

    NAME: str
    PROVIDER: str
    """whose limits it meets"""
    CONTEXT_PROMPT: str | None
    """sent once when its context is full"""

    def find(self, ending: Ending, /) -> Finding | None:
        """What the agent's own records say about this end, or None."""
        ...

    def is_unfinished(self, ending: Ending, /) -> bool:
        """Whether it exited with 0 without the last line that it always prints."""
        ...


class RecordReader(Protocol):
    """How the conversation is read from the records of one framework. Total: other records hold none."""

    AGENT: str
    """of the sessions whose records it reads"""

    def spoken(self, record: Any, /) -> list[ProviderDict]:
        """The messages that a step's record adds to the conversation."""
        ...

    def conversation(self, records: Mapping[int, Any], /) -> list[ProviderDict]:
        """The conversation at the newest checkpoint, from the records on the path to it, by seq."""
        ...


class Extensions(Protocol):
    """Everything that is installed; imported when it is first asked for."""

    def formats(self) -> tuple[Format, ...]:
        """The formats of the built-in agents' transcripts."""
        ...

    def more_formats(self) -> tuple[Format, ...]:
        """Those of agents that other distributions add; the first call looks for them, which takes a while."""
        ...

    def end_reader(self, agent: str) -> EndReader | None:
        """The reader for an agent by any of its names; None if only its messages and exit code can be read."""
        ...

    def record_readers(self) -> tuple[RecordReader, ...]:
        """The readers of frameworks' records."""
        ...


_installed: list[Extensions] = []


def install(extensions: Extensions) -> None:
    """Use these from now on, in this process."""
    _installed[:] = [extensions]


def installed() -> Extensions:
    """What `relight.wiring` has installed."""
    if not _installed:
        raise RuntimeError("relight.wiring was not imported: native transcripts would be misread")
    return _installed[0]
