"""The saver's codec where LangGraph itself asks for one: the same data, never code."""

from __future__ import annotations

from typing import Any, Final

from relight.errors import UnknownType
from relight.frameworks.langgraph.values import Values

KIND: Final = "relight"


class DataSerializer:
    """LangGraph's serializer protocol over `Values`."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Kind and bytes."""
        return KIND, self._values.pack(obj, "value")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; of no other kind than ours."""
        kind, stored = data
        if kind != KIND:
            raise UnknownType(str(kind), path="value", stored=True)
        return self._values.unpack(stored, "value")
