"""Signatures of tools: what a model may pass, as JSON schema; and what it passed, checked and converted.

Types are what msgspec knows (numbers, texts, dates, literals, enums, dataclasses, structs, typed dicts, collections of
them), pydantic models, and paths. A parameter without an annotation takes any JSON. A value is taken as it is if it
fits, else converted if nothing is lost by it: "1" is 1 where a number is expected.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, time
from pathlib import PurePath
from types import FunctionType, MethodType, SimpleNamespace, UnionType
from typing import Any, Final

import msgspec

from relight.errors import UsageError
from relight.sessions.calls.results import UNSUPPORTED

KEY_PARAMETER: Final = "idempotency_key"
"""filled in by relight, never by the model"""
_TIMES: Final[dict[Any, str]] = {datetime: "date-time", time: "time"}
"""formats that msgspec leaves out where a time zone is not required"""
_SECTION: Final = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_DESCRIBED: Final = re.compile(r"^(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


class WrongArguments(Exception):
    """The model passed what the tool does not take; the text says which argument, and what is expected."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter that a model fills in."""

    name: str
    type: Any = Any
    description: str = ""
    is_required: bool = True
    default: Any = None


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a tool."""

    tool: str
    parameters: tuple[Parameter, ...] = ()
    takes_more: bool = False
    """other arguments are passed on as they are (`**kwargs`, or a callable that cannot be inspected)"""
    description: str = ""

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, converted; WrongArguments if the tool does not take them."""
        known = {one.name: one for one in self.parameters}
        wrong = [
            f"the argument {one.name!r} is missing"
            for one in self.parameters
            if one.is_required and one.name not in arguments
        ]
        converted: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in known:
                try:
                    converted[name] = self._converted(known[name], value)
                except (msgspec.ValidationError, ValueError) as error:
                    wrong.append(f"the argument {name!r} is wrong: {error}")
            elif self.takes_more and name != KEY_PARAMETER:
                converted[name] = value
            else:
                wrong.append(f"there is no argument {name!r}; it takes: {', '.join(known) or 'none'}")
        if wrong:
            raise WrongArguments(f"{self.tool} was not run: {'; '.join(wrong)}")
        return converted

    def _converted(self, parameter: Parameter, value: Any) -> Any:
        if parameter.type is Any:
            return value
        if (adapter := _pydantics(parameter.type)) is not None:
            return adapter.validate_python(value)
        try:
            try:
                return msgspec.convert(value, parameter.type, dec_hook=_decoded)
            except msgspec.ValidationError:
                return msgspec.convert(value, parameter.type, strict=False, dec_hook=_decoded)
        except (TypeError, UNSUPPORTED) as error:
            raise self._unsupported(parameter, error) from error

    def schema(self) -> dict[str, Any]:
        """The parameters as a JSON schema of one object."""
        properties, definitions = {}, dict[str, Any]()
        for parameter in self.parameters:
            properties[parameter.name] = self._property(parameter, definitions)
        required = [one.name for one in self.parameters if one.is_required]
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        schema["additionalProperties"] = self.takes_more
        return {**schema, "$defs": definitions} if definitions else schema

    def _property(self, parameter: Parameter, definitions: dict[str, Any]) -> dict[str, Any]:
        def describe(kind: Any) -> dict[str, Any]:
            if issubclass(kind, PurePath):
                return {"type": "string", "format": "path"}
            if not hasattr(kind, "model_json_schema"):
                raise UNSUPPORTED
            model: dict[str, Any] = kind.model_json_schema()
            definitions.update(model.pop("$defs", {}))
            return model

        if (adapter := _pydantics(parameter.type)) is not None:
            return self._finished(parameter, adapter.json_schema(ref_template="#/$defs/{model}"), definitions)
        try:
            schemas, components = msgspec.json.schema_components(
                [_with_formats(parameter.type)], schema_hook=describe, ref_template="#/$defs/{name}"
            )
        except TypeError as error:
            raise self._unsupported(parameter, error) from error
        definitions.update(components)
        return self._finished(parameter, dict(schemas[0]), definitions)

    def _finished(self, parameter: Parameter, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
        definitions.update(schema.pop("$defs", {}))
        if parameter.description:
            schema["description"] = parameter.description
        if not parameter.is_required:
            with suppress(TypeError, UNSUPPORTED):  # no value that a model could pass: it stays optional
                schema["default"] = msgspec.to_builtins(parameter.default, str_keys=True)
        return schema

    def _unsupported(self, parameter: Parameter, error: Exception) -> UsageError:
        why = str(error).strip().splitlines()
        return UsageError(
            f"the tool {self.tool!r}: no JSON value can be a {parameter.type!r} for its parameter {parameter.name!r}"
            f"{f' ({why[-1]})' if why else ''}",
            hints=["annotate it with a type that JSON can express, a dataclass or a pydantic model, or not at all"],
        )


def _with_formats(annotation: Any) -> Any:
    """The annotation, with a format at every time in it, also in `datetime | None` and in lists."""
    if isinstance(annotation, type) and annotation in _TIMES:
        return typing.Annotated[annotation, msgspec.Meta(extra_json_schema={"format": _TIMES[annotation]})]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return typing.Annotated[(_with_formats(inner[0]), *inner[1:])]
    if origin in (typing.Union, UnionType):
        return typing.Union[tuple(map(_with_formats, inner))]  # noqa: UP007
    return origin[tuple(map(_with_formats, inner))] if origin in (dict, list, set, tuple) else annotation


def _pydantics(annotation: Any) -> Any:
    """pydantic's adapter for a type that is annotated with what pydantic alone understands (`Field(ge=1)`), or that has
    such a type in it; None for every other."""
    if not _has_pydantics(annotation):
        return None
    from pydantic import TypeAdapter  # it is there: the annotation is made of it

    return TypeAdapter(annotation)


def _has_pydantics(annotation: Any) -> bool:
    marks = (type(mark).__module__.partition(".")[0] for mark in getattr(annotation, "__metadata__", ()))
    return any(mark in ("pydantic", "annotated_types") for mark in marks) or any(
        map(_has_pydantics, typing.get_args(annotation))
    )


def _decoded(kind: Any, value: Any) -> Any:
    if not isinstance(kind, type):
        raise UNSUPPORTED
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)  # its ValidationError is a ValueError
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if kind is object:
        return value
    if issubclass(kind, PurePath):
        raise ValueError(f"Expected a path, got `{type(value).__name__}`")
    raise UNSUPPORTED


# -- reading a function -----------------------------------------------------------------------------------------------


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Names of its parameters; None if the callable cannot be inspected."""
    if isinstance(function, MethodType):  # cached by the function, so that the cache keeps no instance alive
        names = _parameters_of(function.__func__)
        return names[1:] if names is not None else None
    return _parameters_of(function)


@functools.lru_cache(maxsize=1024)
def _parameters_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    from inspect import signature  # here: a tenth of the start-up of a command that never asks

    try:
        return tuple(signature(function).parameters)
    except (TypeError, ValueError):
        return None


def refused_parameters(run: Callable[..., Any], beside: Callable[..., Any]) -> str | None:
    """Why a function can never be called with all arguments of another, by name; None if it can, or it is unknown."""
    from inspect import Parameter, signature

    try:
        given, taken = signature(run).parameters.values(), signature(beside)
    except (TypeError, ValueError):
        return None
    if any(one.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) for one in given):
        return None
    names = {one.name for one in given} - {KEY_PARAMETER} | {KEY_PARAMETER} & taken.parameters.keys()
    try:
        taken.bind(**dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return None


def read_signature(function: Callable[..., Any], tool: str) -> Signature:
    """What a function takes. UsageError if an annotation names what cannot be found."""
    from inspect import Parameter as Given
    from inspect import cleandoc, signature

    try:
        given = signature(function).parameters
    except (TypeError, ValueError):
        return Signature(tool=tool, takes_more=True)
    text, described = _read_docstring(cleandoc(function.__doc__ or ""))
    found: list[Parameter] = []
    for one in given.values():
        if one.kind in (Given.VAR_KEYWORD, Given.VAR_POSITIONAL) or one.name == KEY_PARAMETER:
            continue
        if one.kind is Given.POSITIONAL_ONLY:
            hints = ["a model passes arguments by name: leave the / out, or wrap it in a function of your own"]
            raise UsageError(f"the tool {tool!r}: its parameter {one.name!r} is positional-only", hints=hints)
        type_ = _resolved(function, tool, one.name, one.annotation) if one.annotation is not Given.empty else Any
        found.append(
            Parameter(
                name=one.name,
                type=Any if type_ is object else type_,
                description=_annotated_text(type_) or described.get(one.name, ""),
                is_required=one.default is Given.empty,
                default=one.default,
            )
        )
    return Signature(
        tool=tool,
        parameters=tuple(found),
        takes_more=any(one.kind is Given.VAR_KEYWORD for one in given.values()),
        description=text,
    )


def _resolved(function: Any, tool: str, name: str, annotation: Any) -> Any:
    """The type behind an annotation. Those of other parameters and of the result may name what is not imported."""
    inner = _code_of(function)
    cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    local = {key: cell.cell_contents for key, cell in cells}
    try:
        holder = SimpleNamespace(__annotations__={name: annotation})
        return typing.get_type_hints(holder, inner.__globals__, local, include_extras=True)[name]
    except NameError as error:
        raise UsageError(
            f"the tool {tool!r}: the annotation of its parameter {name!r} cannot be read: {error}",
            hints=["define or import the type at module level, outside of TYPE_CHECKING"],
        ) from error


def _code_of(function: Any) -> FunctionType:
    """The Python function behind partials, methods, decorators and callable objects."""
    from inspect import unwrap

    while not isinstance(function, FunctionType):
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            function = type(function).__call__
    inner: FunctionType = unwrap(function)
    return inner


def _annotated_text(annotation: Any) -> str:
    """The description in `Annotated[int, "how many"]`, or in pydantic's `Field(description=...)`."""
    for one in getattr(annotation, "__metadata__", ()):
        text = one if isinstance(one, str) else getattr(one, "description", None)
        if isinstance(text, str):
            return text
    return ""


def _read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the descriptions of parameters in its `Args:` section."""
    text: list[str] = []
    described: dict[str, str] = {}
    section, indent, name = "", "", ""
    for line in docstring.splitlines():
        if heading := _SECTION.match(line):
            section, indent, name = heading[1], "", ""
        elif not section:
            text.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            found = _DESCRIBED.match(line)
            if found and found[1] and (not indent or found[1] == indent):
                indent, name = found[1], found[2]
                described[name] = found[3].strip()
            elif name:
                described[name] = f"{described[name]} {line.strip()}".strip()
    return "\n".join(text).strip(), described
