"""Lists and mappings are stored as what is new in them, however they change, and come back as they were."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import relight
from relight.frameworks.langgraph import RelightSaver
from tests.integration.frameworks.langgraph.graphs import config, put

TURNS = 120

Change = Callable[[Any, int, str], Any]
SHAPES: dict[str, tuple[Any, Change]] = {
    "a mapping gets a key": ({}, lambda held, at, text: {**held, f"k{at}": text}),
    "a mapping gets a key in place": ({}, lambda held, at, text: held.update({f"k{at}": {"text": text}}) or held),
    "a mapping loses a key for each new one": (
        {},
        lambda held, at, text: {**{key: one for key, one in held.items() if key != f"k{at - 20}"}, f"k{at}": text},
    ),
    "one of many keys is set": (
        {f"k{at}": "word " * 40 for at in range(40)},
        lambda held, at, text: {**held, f"k{at % 40}": text},
    ),
    "a list loses its first for each new one": ([], lambda held, at, text: [*held[len(held) // 30 :], text]),
    "a list keeps its first and the latest": (
        ["system"],
        lambda held, at, text: [held[0], *held[1 + len(held) // 30 :], text],
    ),
    "a list grows at the front": ([], lambda held, at, text: [text, *held]),
    "one of many elements is replaced": (
        ["word " * 40] * 40,
        lambda held, at, text: [*held[: at % 40], text, *held[at % 40 + 1 :]],
    ),
}


@pytest.mark.parametrize("objects", ["the same", "others"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_turn_costs_what_it_says_whatever_the_shape(shape: str, objects: str) -> None:
    held, change = SHAPES[shape]
    held, chance = copy.deepcopy(held), random.Random(4)
    with relight.open("memory:") as rl:
        saver = RelightSaver(rl)
        at, said = config("t"), 0
        for turn in range(TURNS):
            text = " ".join(str(chance.randrange(10_000)) for _ in range(100))
            said += len(text)
            held = change(held, turn, text)
            at = put(saver, at, {"held": held}, turn + 1)
            if objects == "others":
                held = saver.get_tuple(at).checkpoint["channel_values"]["held"]  # type: ignore[union-attr]
                saver.close()
                saver = RelightSaver(rl)
        found = RelightSaver(rl).get_tuple(at)
        assert found is not None and found.checkpoint["channel_values"]["held"] == held
        size = sum(one.size_bytes for one in rl.history.checkpoints("t") if one.kind == "state")
        copied = RelightSaver(rl)
        copied.copy_thread("t", "copy")
        assert sum(one.size_bytes for one in rl.history.checkpoints("copy")) < 1.2 * size
    assert size < 2 * said


def any_element(chance: random.Random) -> Any:
    return chance.choice(
        [
            chance.randrange(5),
            f"text {chance.randrange(10**6)}",
            {"a": chance.randrange(100), "b": [chance.randrange(9)]},
            AIMessage(content=f"said {chance.randrange(10**6)}", id=str(chance.randrange(10**6))),
            b"bytes",
        ]
    )


def list_changed(held: list[Any], chance: random.Random) -> list[Any]:
    at = chance.randrange(len(held) + 1)
    ways: list[Callable[[], list[Any]]] = [
        lambda: [*held, any_element(chance)],
        lambda: held[at:],
        lambda: held[:at],
        lambda: [*held[:at], any_element(chance), *held[at + 1 :]],
        lambda: [*held[:at], *held[at + 1 :]],
        lambda: [any_element(chance), *held],
        lambda: chance.sample(held, len(held)),
        lambda: copy.deepcopy(held),
    ]
    return chance.choices(ways, weights=[8, 1, 1, 2, 2, 1, 1, 1])[0]()


def mapping_changed(held: dict[Any, Any], chance: random.Random) -> dict[Any, Any]:
    key = f"k{chance.randrange(40)}"
    ways: list[Callable[[], dict[Any, Any]]] = [
        lambda: {**held, key: any_element(chance)},
        lambda: {one: value for one, value in held.items() if one != key},
        lambda: {key: any_element(chance), **held},
        lambda: copy.deepcopy(held),
        lambda: {**held, chance.choice(["$", 3, (1, 2)]): "no plain key"},
        lambda: {one: value for one, value in held.items() if isinstance(one, str) and one != "$"},
    ]
    for value in held.values():
        if isinstance(value, dict) and chance.random() < 0.2:
            value["b"].append(chance.randrange(9))  # in place, wherever it stands
    return chance.choices(ways, weights=[8, 2, 1, 1, 1, 2])[0]()


@pytest.mark.parametrize("seed", range(6))
def test_any_changes_and_branches_come_back_in_their_order(seed: int) -> None:
    chance = random.Random(seed)
    with relight.open("memory:") as rl:
        saver = RelightSaver(rl)
        truth: dict[str, Any] = {}
        at = config("t")
        configs: list[Any] = []
        held: dict[str, Any] = {"list": [], "mapping": {}}
        for turn in range(90):
            if configs and chance.random() < 0.1:
                at = chance.choice(configs)
                held = saver.get_tuple(at).checkpoint["channel_values"]  # type: ignore[union-attr]
            if chance.random() < 0.1:
                saver.close()
                saver = RelightSaver(rl)
            held = {
                "list": list_changed(held["list"], chance),
                "mapping": mapping_changed(held["mapping"], chance),
            }
            at = put(saver, at, held, turn + 1)
            configs.append(at)
            truth[at["configurable"]["checkpoint_id"]] = copy.deepcopy(held), list(held["mapping"])
        saver.copy_thread("t", "copy")
        for thread in ("t", "copy"):
            rows = list(RelightSaver(rl).list(config(thread)))
            assert len(rows) == len(truth)
            for row in rows:
                values, keys = truth[row.config["configurable"]["checkpoint_id"]]
                assert dict(row.checkpoint["channel_values"]) == values
                assert list(row.checkpoint["channel_values"]["mapping"]) == keys
