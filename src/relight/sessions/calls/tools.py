"""Tools: functions that a model may call, with a declared effect, a schema, and a fingerprint by which a change of them
is noticed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, cast, get_args, overload

from relight.errors import UsageError
from relight.sessions.calls.results import all_of
from relight.sessions.calls.signatures import (
    KEY_PARAMETER,
    Signature,
    parameters_of,
    read_signature,
    refused_parameters,
)
from relight.values.call import EFFECTS, Effect

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
Provider = Literal["anthropic", "openai", "openai_chat", "openai_responses", "bedrock", "gemini"]
_OPTIONS: Final = ("name", "effect", "probe", "approve", "alone", "timeout", "retries")
_MAX_SECONDS: Final = 1e9
_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
"""outside of it no provider takes a name; some take fewer"""


class Tool(Generic[_P, _R]):
    """A function that a model may call, and whether it may run twice. Called as the function it was made of; in a class
    it is a method, and knows its object."""

    __name__: str
    __qualname__: str
    name: str
    run: Callable[..., Any]
    effect: Effect
    probe: Callable[..., Any] | None
    """for effect "probe": called with the same arguments, returns None if it took no effect, else the result"""
    approve: bool | Callable[..., Any]
    """whether a call waits for a person before it begins; a predicate is called with the same arguments"""
    alone: bool
    """never runs beside other calls of a reply"""
    timeout: float | None
    """seconds that a run may take"""
    retries: int
    """further runs after one that failed"""

    def __init__(self, run: Callable[_P, _R], **options: Any) -> None:
        functools.update_wrapper(self, run)
        self.run = run
        for option in _OPTIONS:
            setattr(self, option, options[option])

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return cast(_R, self.run(*args, **kwargs))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Tool[_P, _R]: ...
    @overload
    def __get__(self: Tool[Concatenate[Any, _Q], _R], instance: object, owner: type | None = None) -> Tool[_Q, _R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Tool[Any, Any]:
        """A tool declared in a class, bound to one object; with its probe and its predicate, if those are methods."""
        bind = getattr(self.run, "__get__", None)
        bound = bind(instance, owner) if bind is not None else self.run
        if bound is self.run:
            return self
        beside = instance if instance is not None else owner
        probe, approve = _bound_beside(self.probe, beside), _bound_beside(self.approve, beside)
        return self.replaced(run=bound, probe=probe, approve=approve)

    def __reduce__(self) -> Any:
        """Pickled by name, as a function is; a bound one with its object."""
        owner = getattr(self.run, "__self__", None)
        return self.__qualname__ if owner is None else (getattr, (owner, self.__name__))

    def __repr__(self) -> str:
        return f"<tool {self.name} {self.fingerprint}>"

    def replaced(self, *, run: Callable[..., Any] | None = None, **options: Any) -> Tool[Any, Any]:
        """The same tool with other options, or of another function."""
        before = {option: getattr(self, option) for option in _OPTIONS}
        return Tool(run or self.run, **{**before, **options})

    @functools.cached_property
    def signature(self) -> Signature:
        """What it takes, from its annotations and docstring."""
        return read_signature(self.run, self.name)

    def schema(self, provider: Provider) -> dict[str, Any]:
        """Its declaration, as this provider's API takes it in `tools=[...]`."""
        if not _NAME.fullmatch(self.name):
            hints = ["give it another one: @relight.tool(name=...)"]
            raise UsageError(f"the name of a tool is 1 to 128 of A-Z a-z 0-9 _ - . :, not {self.name!r}", hints=hints)
        described = self.signature.description
        known = {"name": self.name, "description": described} if described else {"name": self.name}
        parameters = self.signature.schema()
        match provider:
            case "anthropic":
                return {**known, "input_schema": parameters}
            case "openai" | "openai_chat":
                return {"type": "function", "function": {**known, "parameters": parameters}}
            case "openai_responses":
                return {"type": "function", **known, "parameters": parameters, "strict": False}
            case "bedrock":
                return {"toolSpec": {**known, "inputSchema": {"json": parameters}}}
            case "gemini":
                return {**known, "parametersJsonSchema": parameters}
        raise UsageError(f"unknown provider {provider!r}", hints=[f"one of: {', '.join(get_args(Provider))}"])

    def call(self, arguments: Mapping[str, Any], key: str) -> Any:
        """Run it. A function with a parameter `idempotency_key` gets the key of the effect."""
        return all_of(_invoke(self.run, arguments, key))

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
    wants_key = KEY_PARAMETER in (parameters_of(function) or ())
    return function(**arguments, **{KEY_PARAMETER: key}) if wants_key else function(**arguments)


def _bound_beside(function: Any, beside: Any) -> Any:
    """A function that is a method of the same class, bound to the same object."""
    method = getattr(beside, getattr(function, "__name__", ""), None) if callable(function) else None
    return method if isinstance(method, MethodType) and method.__func__ is function else function


def is_coroutine_function(function: Any) -> bool:
    """Whether the result must be awaited. Unwraps tools, partials, methods and callable objects."""
    from inspect import iscoroutinefunction

    function = function.run if isinstance(function, Tool) else function
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@overload
def tool(function: Callable[_P, _R], /) -> Tool[_P, _R]: ...
@overload
def tool(
    *,
    effect: Effect = "once",
    name: str | None = None,
    probe: Callable[..., Any] | None = None,
    approve: bool | Callable[..., Any] = False,
    alone: bool = False,
    timeout: float | None = None,
    retries: int = 0,
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect = "once",
    name: str | None = None,
    probe: Callable[..., Any] | None = None,
    approve: bool | Callable[..., Any] = False,
    alone: bool = False,
    timeout: float | None = None,
    retries: int = 0,
) -> Any:
    """Declare a function, a coroutine function or a method as a tool. Without an effect it is `once`: never run again
    on its own.

    `approve`: a call waits for a person before it begins (`relight approve`, the dashboard, HTTP); always, or if the
    predicate returns true for its arguments. A decision is for one call with exactly its arguments, and is used once.
    `alone`: never runs beside other calls of the same reply; without a timeout it runs in the caller's own thread.
    `timeout`: seconds after which the caller continues. A coroutine is cancelled; a plain function cannot be stopped,
    and the session keeps its lease until it has ended. A `once` tool is in doubt then. `retries`: further tries after
    one that failed, with growing pauses; only for effects that may run again.
    """
    if effect not in EFFECTS:
        raise UsageError(f"unknown effect {effect!r}", hints=[f"one of: {', '.join(EFFECTS)}"])
    if (effect == "probe") != (probe is not None):
        raise UsageError('effect="probe" and probe=function belong together')
    if type(approve) is not bool and not callable(approve):
        raise UsageError(f"approve is True, False or a function of the tool's arguments, not {approve!r}")
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < _MAX_SECONDS):
        raise UsageError(f"timeout is a number of seconds above 0, not {timeout!r}")
    if type(retries) is not int or retries < 0:
        raise UsageError(f"retries is a number of further tries, 0 or more, not {retries!r}")
    if retries and effect == "once":
        hints = ['declare effect="idempotent", or effect="probe" with a function that finds out whether it took effect']
        raise UsageError("a tool with effect once is never run again on its own, so it has no retries", hints=hints)

    def declare(target: Callable[..., Any]) -> Tool[Any, Any]:
        called = name if name is not None else _name_of(target)
        given = {"approve": approve, "alone": alone, "timeout": timeout, "retries": retries}
        return Tool(target, name=called, effect=effect, probe=probe, **given)

    return declare if function is None else declare(function)


Tools = Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]


def toolbox(tools: Tools | None) -> dict[str, Tool[Any, Any]]:
    """Tools by name, from a list of decorated functions or a mapping from name to function."""
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        return {name: _declared(function, name) for name, function in tools.items()}
    if callable(tools):
        raise UsageError(
            "tools is a list of functions, not one", hints=[f"tools=[{getattr(tools, '__name__', 'TOOL')}]"]
        )
    if not isinstance(tools, Iterable):
        raise UsageError(f"tools is a list of functions, not {type(tools).__name__}")
    found: dict[str, Tool[Any, Any]] = {}
    for one in (_declared(function, None) for function in tools):
        if found.setdefault(one.name, one).run != one.run:
            hints = ["name one of them: @relight.tool(name=...)"]
            raise UsageError(f"two tools are named {one.name!r}, and a model could call only one", hints=hints)
    return found


def _name_of(function: Callable[..., Any]) -> str:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", None)
    if not isinstance(name, str):
        hints = ["relight.tool(name=NAME)(THING), or tools={NAME: THING}"]
        raise UsageError(f"a tool that is a {type(inner).__name__} has no name", hints=hints)
    return name


def _declared(function: Any, name: str | None) -> Tool[Any, Any]:
    wrapped = getattr(function, "__wrapped__", None)
    if isinstance(function, Tool):
        declared: Tool[Any, Any] = function
    elif isinstance(function, MethodType) and isinstance(function.__func__, Tool):
        declared = function.__func__.__get__(function.__self__)  # from 3.13 on @classmethod does not bind it
    elif isinstance(wrapped, Tool):  # another decorator is around it
        declared = wrapped.replaced(run=function)
    elif callable(function):
        declared = tool(name=name)(function)
    else:
        hints = ["give the function here, and its schema to your client"] if isinstance(function, Mapping) else []
        raise UsageError(f"a tool must be a function, not {type(function).__name__}", hints=hints)
    if not isinstance(declared.run, MethodType) and (parameters_of(declared.run) or ("",))[0] in ("self", "cls"):
        hints = [f"give the method of an object: tools=[thing.{declared.run.__name__}]"]
        raise UsageError(f"the tool {declared.name!r} is a method of no object", hints=hints)
    for what, beside in (("probe", declared.probe), ("approve", declared.approve)):
        if callable(beside) and (why := refused_parameters(declared.run, beside)):
            hints = ["give it the parameters of the tool, or **arguments"]
            raise UsageError(f"{what} of {declared.name!r} is called with the tool's arguments: {why}", hints=hints)
    return declared if name is None else declared.replaced(name=name)


def fingerprint_of(box: Mapping[str, Tool[Any, Any]]) -> dict[str, str]:
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
