"""Examples of every request and response of the OpenAPI document, generated from the schemas.

The value of a field is its declared example, else the one listed for its name here, else one for its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SESSION: Final = "7f3a91c2d4e5f60718293a4b5c6d7e8f"
_NAMED: Final[Mapping[str, Any]] = {
    "agent": "claude",
    "attempt": 2,
    "checkpoint": f"{_SESSION}@206",
    "code": "workspace-missing",
    "command": ["claude", "--print"],
    "cure": "relight resume fix-login --restore",
    "day": "2026-11-15",
    "directory": "shop",
    "failure": "limit",
    "durability": "power-loss",
    "durability_text": "every acknowledged step survives a power cut",
    "handle": None,
    "head": 206,
    "hints": ["POST /api/sessions/fix-login/resume"],
    "id": _SESSION,
    "key": None,
    "model": None,
    "name": "fix-login",
    "names": ["fix-login"],
    "native": "5f0c1f2e-0000-4000-8000-000000000000",
    "owner": "pid 4711 on build-3",
    "parent": None,
    "path": "src/login.py",
    "pid": 4711,
    "plan": "5f0c3a9d1e7b4c28",
    "provider": "anthropic",
    "ref": "fix-login@206",
    "reason": None,
    "resumed_from": 206,
    "revoked_at": None,
    "runtime": "process",
    "scope": "read",
    "seq": 214,
    "session": _SESSION,
    "sessions": [_SESSION],
    "task": "Make the login test pass",
    "text": "The lock test expects the old path.",
    "token": "rl_...",
    "tool": "Bash",
    "url": "sqlite:///relight.db",
    "why": "the host is gone",
}
_TEXTS: Final = {
    "/metrics": '# TYPE relight_sessions gauge\nrelight_sessions{status="working"} 3.0\n',
    "/api/events": f'id: 9c1d-17\nevent: session\ndata: {{"id":"{_SESSION}","status":"waiting","seq":214}}\n\n',
    "/api/sessions/{ref}/events": f'id: 214\nevent: step\ndata: {{"session":"{_SESSION}","seq":214}}\n\n',
}
_WHOLE: Final[Mapping[str, Any]] = {
    "/openapi.json": {"openapi": "3.1.0", "info": {"title": "relight", "version": "1.0.0"}, "paths": {}},
    "/api/checkpoints/{ref}/label": {"checkpoint": f"{_SESSION}@206", "label": "tests-green"},
    "/api/tokens/{name}": {"revoked": "ci"},
    "/api/sessions/{ref}/files": {"files": None},
}
_KINDS: Final[Mapping[str, Any]] = {"integer": 1, "number": 1.5, "boolean": True, "null": None, "string": "..."}
_FORMATS: Final = {"date-time": "2026-11-15T05:44:51Z", "date": "2026-11-15"}


def add_examples(document: dict[str, Any]) -> None:
    """Add an example to each request body and each successful response of a document."""
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                content.setdefault("example", _request(content["schema"], schemas))
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values() if status.startswith("2") else ():
                    if path in _TEXTS:
                        content.setdefault("example", _TEXTS[path])
                    elif path in _WHOLE:
                        content.setdefault("example", _WHOLE[path])
                    else:
                        content.setdefault("example", example_of(content["schema"], schemas))


def _request(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A request as a client would send it: the required fields, and those that declare an example."""
    found = _resolve(schema, schemas)
    required = found.get("required", ())
    fields = {name: one for name, one in found["properties"].items() if name in required or "examples" in one}
    return {name: example_of(one, schemas, name) for name, one in fields.items()}


def example_of(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str = "", within: tuple[str, ...] = ()
) -> Any:
    """A value that is valid under the schema. `within` holds the references on the way: recursion ends there."""
    reference = schema.get("$ref", "")
    found = _resolve(schema, schemas)
    within = (*within, *([reference] if reference else []))
    if "examples" in found:
        return found["examples"][0]
    for option in [one for one in found.get("anyOf", ()) if one.get("type") != "null"]:
        if option.get("$ref") in within:
            return None
        if name in _NAMED and _is_kind(_NAMED[name], found):
            return _NAMED[name]
        return example_of(option, schemas, name, within)
    if "enum" in found or "const" in found:
        return found.get("const", found.get("enum", [None])[0])
    kind = found.get("type")
    if kind == "object" or "properties" in found:
        return {key: example_of(one, schemas, key, within) for key, one in found.get("properties", {}).items()}
    if name in _NAMED and _is_kind(_NAMED[name], found):
        return _NAMED[name]
    if kind == "array":
        items = found.get("items", {})
        return [] if items.get("$ref") in within or not items else [example_of(items, schemas, name, within)]
    return _FORMATS.get(found.get("format", ""), _KINDS.get(str(kind)))


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references, also through `X | null`."""
    if "$ref" in schema:
        return _resolve(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    options = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(options) == 1 and "$ref" in options[0] and "examples" not in schema:
        return _resolve(options[0], schemas)
    return schema


def _is_kind(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value of `_NAMED` has the type of the field."""
    kinds = {one.get("type") for one in (schema, *schema.get("anyOf", ()))}
    if value is None:
        return "null" in kinds
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "format" not in schema and names[type(value)] in kinds
