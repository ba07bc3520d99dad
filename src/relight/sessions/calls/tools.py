"""Tools: functions with a declared effect, and the fingerprint by which a change of them is noticed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any, Final, TypeVar, overload

import msgspec

from relight.errors import UsageError
from relight.values.call import EFFECTS, Effect

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK: Final = "__relight_tool__"
KEY_PARAMETER: Final = "idempotency_key"


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A function that a model may call, and whether it may run twice."""

    name: str
    run: Callable[..., Any]
    effect: Effect = "once"
    probe: Callable[..., Any] | None = None
    """for effect "probe": called with the same arguments, returns None if it took no effect, else the result"""

    approve: bool | Callable[..., Any] = False
    """whether a call waits for a person before it begins; a predicate is called with the same arguments"""

    alone: bool = False
    """never runs beside other calls of a reply"""

    def call(self, arguments: Mapping[str, Any], key: str) -> Any:
        """Run it. A function with a parameter `idempotency_key` gets the key of the effect."""
        return _invoke(self.run, arguments, key)

    def ask_probe(self, arguments: Mapping[str, Any], key: str) -> Any:
        """Ask whether an earlier run took effect."""
        if self.probe is None:
            raise UsageError(f"the tool {self.name!r} has no probe")
        return _invoke(self.probe, arguments, key)

    def ask_approval(self, arguments: Mapping[str, Any], key: str) -> Any:
        """Whether this call waits for a person, by its predicate."""
        return _invoke(self.approve, arguments, key) if callable(self.approve) else self.approve

    @property
    def fingerprint(self) -> str:
        """Changes when the effect or the parameters do."""
        names = parameters_of(self.run)
        parameters = ",".join(names) if names is not None else "?"
        return f"{self.effect}({parameters})"


def _invoke(function: Callable[..., Any], arguments: Mapping[str, Any], key: str) -> Any:
    return function(**arguments, **{KEY_PARAMETER: key}) if _wants_key(function) else function(**arguments)


def is_coroutine_function(function: Any) -> bool:
    """Whether the result must be awaited. Unwraps partials, methods and callable objects."""
    from inspect import iscoroutinefunction

    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _wants_key(function: Callable[..., Any]) -> bool:
    return KEY_PARAMETER in (parameters_of(function) or ())


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


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    *,
    effect: Effect = "once",
    name: str | None = None,
    probe: Callable[..., Any] | None = None,
    approve: bool | Callable[..., Any] = False,
    alone: bool = False,
) -> Callable[[_F], _F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect = "once",
    name: str | None = None,
    probe: Callable[..., Any] | None = None,
    approve: bool | Callable[..., Any] = False,
    alone: bool = False,
) -> Any:
    """Declare a function as a tool. Without an effect it is `once`: never run again on its own.

    `approve`: a call waits for a person before it begins (`relight approve`, the dashboard, HTTP); always, or if the
    predicate returns true for its arguments. A decision is for one call with exactly its arguments, and is used once.
    `alone`: never runs beside other calls of the same reply, and runs in the caller's own thread.
    """
    if effect not in EFFECTS:
        raise UsageError(f"unknown effect {effect!a}", hints=[f"one of: {', '.join(EFFECTS)}"])
    if (effect == "probe") != (probe is not None):
        raise UsageError('effect="probe" and probe=function belong together')
    if type(approve) is not bool and not callable(approve):
        raise UsageError(f"approve is True, False or a function of the tool's arguments, not {approve!a}")

    def mark(target: Callable[..., Any]) -> Callable[..., Any]:
        declared = Tool(
            name=name or target.__name__, run=target, effect=effect, probe=probe, approve=approve, alone=alone
        )
        setattr(target, _MARK, declared)
        return target

    return mark if function is None else mark(function)


Tools = Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]


def toolbox(tools: Tools | None) -> dict[str, Tool]:
    """Tools by name, from a list of decorated functions or a mapping from name to function."""
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        return {name: _declared(function, name) for name, function in tools.items()}
    found = [_declared(function, None) for function in tools]
    return {one.name: one for one in found}


def _declared(function: Any, name: str | None) -> Tool:
    declared = function if isinstance(function, Tool) else getattr(function, _MARK, None)
    if declared is None:
        if not callable(function):
            raise UsageError(f"a tool must be a function, not {type(function).__name__}")
        declared = Tool(name=name or str(getattr(function, "__name__", "tool")), run=function)
    elif isinstance(function, MethodType):
        declared = _bound(declared, function)
    return declared if name is None else msgspec.structs.replace(declared, name=name)


def _bound(declared: Tool, method: MethodType) -> Tool:
    """A tool declared in a class, bound to one object; with its probe, if that is a method of the same class."""
    probe = declared.probe
    beside = getattr(method.__self__, getattr(probe, "__name__", ""), None) if probe is not None else None
    if isinstance(beside, MethodType) and beside.__func__ is probe:
        probe = beside
    return msgspec.structs.replace(declared, run=method, probe=probe)


def fingerprint_of(box: Mapping[str, Tool]) -> dict[str, str]:
    """What is recorded of the tools, so that the next attempt notices a change."""
    return {name: one.fingerprint for name, one in sorted(box.items())}


def changed_tools(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The difference as lines: `-` gone, `+` new, `~` declared differently."""
    lines = [f"- {name} {before[name]}" for name in before if name not in after]
    lines += [f"+ {name} {after[name]}" for name in after if name not in before]
    lines += [
        f"~ {name} {before[name]} -> {after[name]}" for name in before if after.get(name, before[name]) != before[name]
    ]
    return lines
