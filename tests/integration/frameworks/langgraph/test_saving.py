"""Saving costs what is new; what was saved is what comes back, whoever changed the objects since."""

from __future__ import annotations

import copy
import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

import relight
from relight.errors import Corrupt
from relight.frameworks.langgraph import RelightSaver
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import checkpoint, config, conversation, put
from tests.support.figures import Figure


def messages_of(saver: Any, at: Any) -> list[Any]:
    found = saver.get_tuple(at)
    assert found is not None
    return list(found.checkpoint["channel_values"]["messages"])


def test_bytes_grow_with_what_is_new(fresh: Open, figure: Figure) -> None:
    turns, chance = 200, random.Random(5)
    rl = fresh()
    saver = RelightSaver(rl)
    messages: list[Any] = []
    at, transcript = config("t"), 0
    for number in range(turns):
        content = " ".join(str(chance.randrange(10_000)) for _ in range(400))
        transcript += len(content)
        messages = [*messages, AIMessage(content=content, id=str(number))]
        at = put(saver, at, {"messages": messages}, number + 1)
    assert messages_of(saver, at) == messages
    sizes = [one.size_bytes for one in rl.history.checkpoints("t") if one.kind == "state"]
    assert max(sizes) < 1.3 * min(sizes)
    assert sum(sizes) < transcript
    figure("G2", f"LangGraph: {turns} checkpoints of a growing list in {sum(sizes) / transcript:.2f} of its transcript")


def test_equal_messages_that_are_other_objects_are_not_written_again(location: Open) -> None:
    """Another program wrote the parent: what it wrote is found by its bytes."""
    rl = location()
    first = RelightSaver(rl)
    made = conversation(first, "t", 50)
    first.close()
    messages = [*pickle.loads(pickle.dumps(messages_of(first, made[-1]))), HumanMessage("one more", id="new")]
    second = RelightSaver(rl)
    at = put(second, made[-1], {"messages": messages}, 51)
    assert messages_of(second, at) == messages
    newest = list(rl.history.checkpoints("t"))[-1]
    assert newest.size_bytes < 1000


@pytest.mark.parametrize("change", ["content", "deep", "other", "early"])
def test_an_object_that_was_changed_in_place_is_saved_as_it_is_now(fresh: Open, change: str) -> None:
    saver = RelightSaver(fresh())
    messages: list[Any] = [
        AIMessage(content=[{"type": "text", "text": str(n)}], id=str(n), additional_kwargs={"k": [n]})
        for n in range(12)
    ]
    at = put(saver, config("t"), {"messages": messages})
    was = copy.deepcopy(messages)
    changed = messages[-2] if change != "early" else messages[5]
    if change in ("content", "early"):
        changed.content = "corrected"
    elif change == "deep":
        changed.additional_kwargs["more"] = 1
    else:
        messages[-2] = AIMessage(content="instead", id="other")
    after = put(saver, at, {"messages": [*messages, HumanMessage("next")]}, 2)
    assert messages_of(saver, after)[:-1] == messages
    assert messages_of(saver, at) == was


def test_random_edits_of_lists_and_branches_come_back_as_in_memory(fresh: Open) -> None:
    chance = random.Random(11)
    ours, plain = RelightSaver(fresh()), InMemorySaver()
    made: list[tuple[Any, list[Any]]] = [(config("t"), [])]
    for number in range(120):
        at, before = made[-1] if chance.random() < 0.8 else chance.choice(made)
        edited = list(before)
        for _ in range(chance.randrange(4)):
            where = chance.randrange(len(edited) + 1)
            edited[where : where + chance.randrange(3)] = [f"{number}.{one}" for one in range(chance.randrange(3))]
        value = edited if chance.random() < 0.9 else {"not a list": number}
        one = checkpoint({"messages": value, "same": "x"}, number + 1)
        new = {"messages": number + 1, "same": number + 1}
        for saver in (ours, plain):
            saver.put(at, one, {"source": "loop", "step": number}, new)  # type: ignore[arg-type]
        made.append((config("t", one["id"]), edited))
    for at, _ in made[1:]:
        mine, theirs = ours.get_tuple(at), plain.get_tuple(at)
        assert mine is not None and theirs is not None
        assert mine.checkpoint == theirs.checkpoint
        assert mine.parent_config == theirs.parent_config


def test_a_channel_whose_version_did_not_change_is_not_written_and_one_without_version_is(fresh: Open) -> None:
    rl = fresh()
    saver = RelightSaver(rl)
    large = {"text": "x" * 20_000 + str(random.Random(1).random())}
    one = checkpoint({"large": large, "small": 1})
    at = saver.put(config("t"), one, {}, {"large": 1, "small": 1})
    two: Any = {**checkpoint({"large": large, "small": 2}), "channel_versions": {"large": 1, "small": 2}}
    at = saver.put(at, two, {}, {"small": 2})
    assert list(rl.history.checkpoints("t"))[-1].size_bytes < 2000
    found = saver.get_tuple(at)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"large": large, "small": 2}
    unversioned: Any = {**checkpoint({"a": [1], "b": 2}), "channel_versions": {}}
    again = saver.get_tuple(saver.put(config("u"), unversioned, {}, {}))
    assert again is not None
    assert again.checkpoint["channel_values"] == {"a": [1], "b": 2}


def test_what_a_list_gives_is_a_dict_and_a_list_for_whoever_asks(fresh: Open) -> None:
    saver = RelightSaver(fresh())
    at = put(saver, config("t"), {"messages": ["a", "b"], "x": 1})
    saver.put_writes(at, [("x", 2)], "task")
    (one,) = saver.list(config("t"))
    whole = saver.get_tuple(at)
    assert whole is not None
    assert one.checkpoint == whole.checkpoint and whole.checkpoint == one.checkpoint
    assert one == whole
    pairs: list[tuple[Any, Any]] = [(one.checkpoint, whole.checkpoint), (one.metadata, whole.metadata)]
    for lazy, plain in pairs:
        assert isinstance(lazy, dict)
        assert {**lazy} == dict(lazy) == lazy.copy() == copy.deepcopy(lazy) == pickle.loads(pickle.dumps(lazy)) == plain
        assert json.loads(json.dumps(lazy)) == json.loads(json.dumps(plain))
        assert (len(lazy), list(lazy), bool(lazy)) == (len(plain), list(plain), True)
        assert lazy | {"z": 1} == {"z": 1} | dict(lazy)
    (fresh_one,) = saver.list(config("t"))
    writes = fresh_one.pending_writes
    assert isinstance(writes, list)
    assert [*writes] == writes[:] == writes.copy() == copy.copy(writes) == [("task", "x", 2)]
    assert (len(writes), writes[0][2], ("task", "x", 2) in writes) == (1, 2, True)


def test_small_memory_changes_nothing_but_the_time(location: Open) -> None:
    saver = RelightSaver(location(), cache_bytes=1)
    for number in range(8):
        conversation(saver, f"t{number}", 6)
    saver.close()
    for number in range(8):
        assert len(messages_of(saver, config(f"t{number}"))) == 6


@pytest.mark.guarantee("G5")
def test_a_flipped_bit_in_the_newest_checkpoint_is_named_and_the_previous_one_offered(
    tmp_path: Path, figure: Figure, sample: Any
) -> None:
    import apsw

    path = tmp_path / "r.db"
    with relight.open(path) as rl:
        saver = RelightSaver(rl)
        made = conversation(saver, "t", 4)
        saver.close()
        seqs = [one.seq for one in rl.history.checkpoints("t") if one.kind == "state"]
    connection = apsw.Connection(str(path))
    row = connection.execute(
        "SELECT bodies.id, bodies.data FROM steps JOIN bodies ON bodies.id = steps.body WHERE steps.seq = ?",
        (seqs[-1],),
    ).fetchone()
    assert row is not None
    body, data = int(row[0]), bytes(row[1])
    chance = random.Random(3)
    flips = sample(40, proof=len(data) * 8, teeth=5)
    bits = chance.sample(range(len(data) * 8), min(flips, len(data) * 8))
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        connection.execute("UPDATE bodies SET data = ? WHERE id = ?", (bytes(flipped), body))
        with relight.open(path) as rl:
            saver = RelightSaver(rl)
            for look in (lambda s=saver: s.get_tuple(config("t")), lambda s=saver: list(s.list(config("t")))):
                with pytest.raises(Corrupt) as found:
                    look()
                assert (found.value.seq, found.value.offered) == (seqs[-1], f"t@{seqs[-2]}")
                assert "saver.recover('t')" in found.value.hints[0]
    connection.close()
    with relight.open(path) as rl:
        saver = RelightSaver(rl)
        back = saver.recover("t")
        assert back == made[-2]
        assert len(messages_of(saver, config("t"))) == 3
        assert saver.get_tuple(made[-1]) is None
        put(saver, back, {"messages": ["goes on"]}, 9)
        assert messages_of(RelightSaver(rl), config("t")) == ["goes on"]
        assert saver.recover("t") == saver.get_tuple(config("t")).config  # type: ignore[union-attr]
    figure(
        "G5", f"LangGraph: {len(bits)} flips in the newest checkpoint, each named, the previous one offered and taken"
    )
