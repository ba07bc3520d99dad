"""`relight.types` and `relight.aio`: every type has a public name, and both forms have the same verbs, typed."""

from __future__ import annotations

import inspect
from typing import Any

import relight
from relight import aio, errors, types
from tools import generate_aio
from tools.surface import NOUNS, RENAMED, annotated, methods, origins, read

CLASSES = [
    *((f"relight.library.{noun}", noun.capitalize()) for noun in NOUNS),
    ("relight.library.facade", "Relight"),
    ("relight.sessions.session", "Session"),
    ("relight.sessions.turns.loop", "Turn"),
]
FUNCTIONS = [("relight.wiring", "open"), ("relight.shared_handles", "session"), ("relight.aio", "session")]


def named() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for where, name in (*CLASSES, *FUNCTIONS):
        module = read(where)
        node: Any = module.named(name)
        for function in [node] if (where, name) in FUNCTIONS else methods(node):
            found |= {one for expression in annotated(function) for one in origins(module, expression)}
    return found


def test_every_type_of_the_surface_has_a_public_name() -> None:
    missing = []
    for where, name in sorted(named()):
        there = getattr(__import__(where, fromlist=[name]), name)
        public = RENAMED.get((where, name), name)
        if not any(getattr(place, public, None) is there for place in (relight, types, errors, aio)):
            missing.append(f"{where}.{name}")
    assert missing == []
    assert sorted(types.__all__) == sorted(types._MODULES) and all(hasattr(types, name) for name in types.__all__)


def test_the_awaited_form_is_what_the_generator_makes_of_the_sync_one() -> None:
    stale = [name for name, text in generate_aio.files() if (generate_aio.TARGET / f"{name}.py").read_text() != text]
    assert stale == [], "run: python tools/generate_aio.py"


def public(one: type) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, Any, str]]:
    """As they are in both forms: a session is an awaited one there."""
    found = []
    for one in inspect.signature(function).parameters.values():
        said = str(one.annotation).replace("AsyncSession", "Session").replace("Session | family.Named", "Named")
        for (_, name), public in RENAMED.items():
            said = said.replace(public, name)
        found.append((one.name, one.kind, one.default, said.rpartition(".")[2]))
    return found


def test_both_forms_have_the_same_verbs_with_the_same_arguments() -> None:
    with relight.open("memory:") as rl, rl.session("a") as s:
        awaited = aio.AsyncRelight(rl)
        pairs: list[tuple[Any, Any]] = [(type(s), aio.AsyncSession), (type(rl), aio.AsyncRelight)]
        pairs += [(type(getattr(rl, noun)), type(getattr(awaited, noun))) for noun in NOUNS]
    assert public(relight.Relight) - public(aio.AsyncRelight) == {"pinned", "unpinned", *NOUNS}
    for sync, other in pairs:
        if sync is not relight.Relight:
            assert public(sync) == public(other)
        for name in public(sync) & public(other):
            if callable(getattr(sync, name)):
                assert parameters(getattr(sync, name)) == parameters(getattr(other, name)), name
    assert parameters(relight.session) == parameters(aio.session) and parameters(relight.open) == parameters(aio.open)
