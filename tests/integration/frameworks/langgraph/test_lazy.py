"""What is read late behaves like what was there from the beginning, whatever is asked of it first."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from relight.frameworks.langgraph.lazy import UNREAD, LazyDict, LazyList

DICT = {"b": 1, "a": [2], UNREAD: 3}
LIST = [3, 1, 2]
Act = Callable[[Any], Any]


def lazy_dict() -> LazyDict:
    return LazyDict(lambda first, _: first.copy(), DICT, None)


def lazy_list() -> LazyList:
    return LazyList(lambda first, _: first.copy(), LIST, None)


EITHER: dict[str, Act] = {
    "json": json.dumps,
    "json inside": lambda it: json.dumps([{"it": it}]),
    "pickle": lambda it: pickle.loads(pickle.dumps(it)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "repr": repr,
    "len": len,
    "bool": bool,
    "list": list,
    "reversed": lambda it: list(reversed(it)),
    "clear": lambda it: it.clear(),
    "its copy": lambda it: it.copy(),
    "equal": lambda it: (it in (DICT, LIST), it != [], it == lazy_list(), it == lazy_dict()),
}
OF_DICTS: dict[str, Act] = {
    "plain": dict,
    "as words": lambda it: dict(**it),
    "unpacked": lambda it: {**it},
    "merged": lambda it: it | {"z": 1},
    "merged into": lambda it: {"b": 0, "z": 1} | it,
    "merged in place": lambda it: it.__ior__({"b": 9}) == {**DICT, "b": 9},
    "both late": lambda it: it | lazy_dict(),
    "updates": lambda it: it.update(b=9),
    "is an update": lambda it: [known := {"b": 0}, known.update(it)][0],
    "popitem": lambda it: it.popitem(),
    "pop": lambda it: it.pop("b"),
    "pop nothing": lambda it: it.pop("z", None),
    "setdefault": lambda it: it.setdefault("b", 9),
    "get": lambda it: (it.get("b"), it.get("z")),
    "views": lambda it: (list(it.keys()), list(it.values()), list(it.items())),
    "set": lambda it: it.__setitem__("b", 9),
    "delete": lambda it: it.__delitem__("b"),
    "in": lambda it: ("b" in it, "z" in it),
}
OF_LISTS: dict[str, Act] = {
    "tuple": tuple,
    "sorted": sorted,
    "unpacked": lambda it: [*it],
    "added": lambda it: it + [4],  # noqa: RUF005
    "added to": lambda it: [4] + it,  # noqa: RUF005
    "added in place": lambda it: it.__iadd__([4]) == [*LIST, 4],
    "both late": lambda it: it + lazy_list(),
    "times": lambda it: (it * 2, 2 * it),
    "times in place": lambda it: it.__imul__(2) == LIST * 2,
    "compared": lambda it: (it < [9], it <= LIST, it > [0], it >= lazy_list()),
    "append": lambda it: it.append(4),
    "extend": lambda it: it.extend([4]),
    "insert": lambda it: it.insert(0, 4),
    "pop": lambda it: it.pop(),
    "remove": lambda it: it.remove(1),
    "reverse": lambda it: it.reverse(),
    "sort": lambda it: it.sort(key=lambda one: -one),
    "index": lambda it: (it.index(1), it.count(1), it[0], it[1:], 1 in it),
    "set": lambda it: it.__setitem__(0, 9),
    "set some": lambda it: it.__setitem__(slice(0, 2), [9]),
    "delete": lambda it: it.__delitem__(0),
}


def same(act: Act, late: Any, there: Any) -> None:
    assert act(late) == act(there)
    assert late == there and type(there)(late) == there


@pytest.mark.parametrize("act", [*EITHER.values(), *OF_DICTS.values()], ids=[*EITHER, *OF_DICTS])
def test_a_mapping_read_late_is_the_mapping(act: Act) -> None:
    same(act, lazy_dict(), DICT.copy())


@pytest.mark.parametrize("act", [*EITHER.values(), *OF_LISTS.values()], ids=[*EITHER, *OF_LISTS])
def test_a_list_read_late_is_the_list(act: Act) -> None:
    same(act, lazy_list(), LIST.copy())


def test_no_method_looks_without_reading() -> None:
    for late, plain in ((LazyDict, dict), (LazyList, list)):
        kept = {"__class_getitem__", "__getattribute__", "__init__", "__new__", "__sizeof__", "fromkeys"}
        missed = {name for name in vars(plain) if vars(late).get(name) is None} - kept - {"__doc__", "__hash__"}
        assert missed <= {"__ge__", "__gt__", "__le__", "__lt__"} if plain is dict else not missed


def test_a_read_that_fails_is_tried_again() -> None:
    tries: list[int] = []

    def load(first: Any, _: Any) -> dict[str, Any]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("away")
        return {"a": 1}

    late = LazyDict(load, None, None)
    with pytest.raises(OSError, match="away"):
        len(late)
    assert late == {"a": 1}
    assert len(tries) == 2
