"""The saver's codec as LangGraph's serializer protocol."""

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
        """Encode a value; its kind and bytes."""
        return KIND, self._values.pack(obj, "value")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a value; kinds of other serializers are refused."""
        kind, stored = data
        if kind != KIND:
            raise UnknownType(str(kind), path="value", stored=True)
        return self._values.unpack(stored, "value")
