"""Members of a program's enums as data: by name; members of a flag by value, because combinations have none of their
own."""

from __future__ import annotations

import enum
from typing import Any


def taken(member: enum.Enum) -> dict[str, Any]:
    """What is stored of a member."""
    return {"value": member.value} if isinstance(member, enum.Flag) else {"name": member.name}


def made(kind: Any, fields: dict[str, Any]) -> Any:
    """The member again; KeyError or ValueError if there is none. A flag is looked up without code of its own class:
    that of the standard library combines its members."""
    if not issubclass(kind, enum.Flag):
        return kind[fields["name"]] if "name" in fields else kind(fields["value"])
    value = fields["value"] if "value" in fields else _combined(kind, fields["name"])
    known = kind._value2member_map_.get(value)
    return known if known is not None else enum.Flag._missing_.__func__(kind, value)  # type: ignore[attr-defined]


def _combined(kind: Any, name: str | None) -> int:
    """The value of `X|Y` or `X|8`, as combinations were once stored; of none at all, None."""
    total = 0
    for part in name.split("|") if name else ():
        total |= int(part) if part.isdigit() else kind.__members__[part].value
    return total
