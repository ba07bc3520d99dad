"""The dialect of a coding agent: how its native lines are read and written. Apart from `convert`, which only a
hand-over needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from relight.journal.conversion.tools import Tool
    from relight.values.view import Message


class Dialect(Protocol):
    """Reader and writer of one agent's native lines. Pure; reading never raises."""

    @property
    def format(self) -> str:
        """The name of the format of its lines."""
        ...

    @property
    def max_result(self) -> int | None:
        """Characters of a result that the agent keeps of an imported conversation; None: all."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Its tools that have a neutral equivalent."""
        ...

    def spoken(self, lines: Sequence[dict[str, Any]]) -> list[Message]:
        """What these lines say, with calls in neutral terms and the harness's own texts as the system's."""
        ...

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[dict[str, Any]]:
        """Lines that say this; the messages keep to the grammar. `AgentAdapter.write` makes a session of them."""
        ...

    def line_faults(self, line: dict[str, Any]) -> list[str]:
        """What the provider would refuse about this line alone."""
        ...
