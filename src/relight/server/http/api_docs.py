"""The OpenAPI document as the page `/docs` shows it: every request with what it takes and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

_METHODS: Final = ("get", "post", "patch", "delete")


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter, or a member of a body."""

    name: str
    where: str
    """query, path, header or body"""
    kind: str
    required: bool
    meaning: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its answers."""

    id: str
    method: str
    path: str
    scope: str
    meaning: str
    fields: list[Field]
    answers: list[tuple[str, str]]
    """status and meaning"""
    request: str
    """an example that can be sent"""
    response: str
    events: list[tuple[str, str]]
    """of a stream: name, and schema of its data"""


def operations_of(document: Mapping[str, Any]) -> dict[str, list[Operation]]:
    """Tag to operations, in the order of the document."""
    found: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if (one := methods.get(method)) is not None:
                found.setdefault(one["tags"][0], []).append(_operation(document, path, method, one))
    return found


def _operation(document: Mapping[str, Any], path: str, method: str, one: Mapping[str, Any]) -> Operation:
    good: Mapping[str, Any] = next(
        (answer for status, answer in one["responses"].items() if status.startswith("2")), {}
    )
    content: Mapping[str, Any] = next(iter(good.get("content", {}).values()), {})
    body = one.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Operation(
        id=one["operationId"],
        method=method.upper(),
        path=path,
        scope=one.get("x-scope", "open to everyone"),
        meaning=one["description"],
        fields=[*_parameters(one), *_members(document, body.get("schema", {}))],
        answers=[(status, answer["description"]) for status, answer in sorted(one["responses"].items())],
        request=_curl(method, path, body.get("example")),
        response=_text(content.get("example")),
        events=[(name, schema["$ref"].rpartition("/")[2]) for name, schema in content.get("x-events", {}).items()],
    )


def _parameters(one: Mapping[str, Any]) -> Iterator[Field]:
    for given in one.get("parameters", ()):
        yield Field(
            name=given["name"],
            where=given["in"],
            kind=_kind(given["schema"]),
            required=given.get("required", False),
            meaning=given.get("description", ""),
        )


def _members(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Field]:
    found = _resolved(document, next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema))
    for name, given in found.get("properties", {}).items():
        yield Field(
            name=name,
            where="body",
            kind=_kind(given),
            required=name in found.get("required", ()),
            meaning=given.get("description", ""),
        )


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    """A type as text."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("$ref", "").rpartition("/")[2] or schema.get("type", "any"))


def _curl(method: str, path: str, body: Any) -> str:
    words = ["curl", *([] if method == "get" else ["-X", method.upper()]), "-H 'Authorization: Bearer TOKEN'"]
    if body is not None:
        words += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body)}'"]
    return " ".join([*words, f"$SERVER{path}"])


def _text(example: Any) -> str:
    return example if isinstance(example, str) else "" if example is None else json.dumps(example, indent=2)
