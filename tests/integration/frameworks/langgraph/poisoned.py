"""Loads records that try to run code, under an audit hook that ends the process if any does. Prints what was tried.

Three kinds: what LangGraph's own savers would run (extensions of MessagePack that name a function, pickles, `lc`
constructors), marks of ours that name a type nobody registered, and random bytes and nestings of all of these.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from typing import Any

import msgspec

import relight
from relight.errors import RelightError
from relight.frameworks.langgraph import RelightSaver, naming
from relight.frameworks.langgraph.foreign import Foreign, Refusal
from relight.frameworks.langgraph.records import Put, pack
from relight.journal.codec import encoded
from relight.values.status import StatusChange

CANARY = "relight-canary"
FORBIDDEN = (
    "import",
    "exec",
    "compile",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "socket.connect",
)
CALL = ["os", "system", f"touch {CANARY}"]


class Evil:
    def __reduce__(self) -> Any:
        return os.system, (f"touch {CANARY}",)


def extensions() -> list[Any]:
    """What a stored row of LangGraph's own would call."""
    forms = [CALL, ["os", "system", [CALL[2]]], ["os", "system", {"command": CALL[2]}], [*CALL, "__call__"]]
    forms += [["subprocess", "Popen", [CALL[2]]], ["builtins", "eval", "1"], ["pickle", "loads", pickle.dumps(Evil())]]
    return [msgspec.msgpack.Ext(code, encoded(form)) for code in (*range(8), 100, -1) for form in forms]


def marks() -> list[Any]:
    kinds = (
        "model",
        "data",
        "dump",
        "enum",
        "tuple_of",
        "message",
        "send",
        "command",
        "interrupt",
        "path",
        "zone",
        "map",
    )
    names = ("os.system", "subprocess.Popen", "builtins.eval", "AIMessage", "relight.open", 5, None, ["x"])
    held = (
        {"value": CALL[2]},
        [CALL],
        CALL[2],
        None,
        {"__class__": "os"},
        {"content": {"$": "model", "t": "os.system"}},
    )
    return [
        {"$": kind, "t": name, "v": one} for kind in (*kinds, "os.system", 7, None) for name in names for one in held
    ]


def constructors() -> list[Any]:
    return [
        {"lc": lc, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": CALL[2]}, "method": "x"}
        for lc in (1, 2)
    ]


def raw(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, ValueError):
        return b"\xc1"


def main() -> None:
    directory, rounds = sys.argv[1], int(sys.argv[2])
    os.chdir(directory)
    chance = random.Random(7)
    rl = relight.open("memory:")
    saver = RelightSaver(rl)
    warm(saver)
    rl.history.load("warm")
    assert tried(rl, saver, "honest", encoded("fine")) == 0  # decoders are made from our own types at their first use
    bad = [*map(raw, extensions()), *map(raw, marks()), *map(raw, constructors()), pickle.dumps(Evil())]
    bad += [raw([value, {"x": value}]) for value in extensions()[:20]]
    bad += [bytes(chance.randrange(256) for _ in range(chance.randrange(1, 60))) for _ in range(rounds)]
    bad += [mutated(chance, chance.choice(bad)) for _ in range(rounds)]
    foreign = Foreign()
    Guard.armed = True
    refused = 0
    for number, data in enumerate(bad):
        refused += tried(rl, saver, f"t{number}", data)
        for kind in ("msgpack", "json", "pickle", "anything"):
            try:
                foreign.value(kind, data)
            except Refusal:
                refused += 1
    Guard.armed = False
    assert not os.path.exists(CANARY), "the canary sings"
    rl.close()
    print(f"{len(bad)} poisoned records loaded under an audit hook, {refused} refused by name, 0 ran")


def mutated(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.randrange(256)]) + data[at + chance.randrange(2) :]


def tried(rl: Any, saver: RelightSaver, thread: str, data: bytes) -> int:
    """Written as a writer of ours would, digests and all; then listed and loaded. Was it refused?"""
    rest = encoded({"v": 4, "ts": "", "channel_versions": {"x": 1}, "versions_seen": {}})
    put = Put(
        id="1", rest=msgspec.Raw(rest), metadata=msgspec.Raw(encoded({"step": 1})), values={"x": msgspec.Raw(data)}
    )
    naming.write_new(rl._context, thread, [(pack(put), "state")], StatusChange(status="completed"))
    config: Any = {"configurable": {"thread_id": thread}}
    try:
        for listed in saver.list(config):
            repr(listed.checkpoint)
        found = saver.get_tuple(config)
        assert found is not None
        assert_data(found.checkpoint["channel_values"])
    except RelightError:
        return 1
    finally:
        saver.delete_thread(thread)
    return 0


def assert_data(value: Any) -> None:
    """Nothing that came back can be called, and nothing is of a type that was not allowed."""
    assert not callable(value) or isinstance(value, type(None)), repr(value)
    if isinstance(value, dict):
        for one in value.values():
            assert_data(one)
    elif isinstance(value, list | tuple | set):
        for one in value:
            assert_data(one)


def warm(saver: RelightSaver) -> None:
    """Everything that honest loading imports is imported before the hook is armed."""
    from langchain_core.messages import AIMessage
    from langgraph.types import Command, Interrupt, Overwrite, Send

    values = {"a": [AIMessage("x")], "b": Send("n", 1), "c": Interrupt(value=1, id="i"), "d": Command(goto="x")}
    values |= {"e": Overwrite(value=1)}
    made: Any = {"v": 4, "id": "1", "ts": "", "channel_values": values, "channel_versions": dict.fromkeys(values, 1)}
    made["versions_seen"] = {}
    at = saver.put({"configurable": {"thread_id": "warm"}}, made, {}, dict.fromkeys(values, 1))
    assert saver.get_tuple(at) is not None
    assert [repr(one) for one in saver.list({"configurable": {"thread_id": "warm"}})]
    try:
        saver.get_tuple({"configurable": {"thread_id": "none"}})
        Foreign().value("json", b"{")
    except Refusal:
        pass
    saver.close()


class Guard:
    """Is the hook armed?"""

    armed = False


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    if (
        Guard.armed
        and event.startswith(FORBIDDEN)
        and not (event == "import" and arguments and arguments[0] in sys.modules)
    ):
        print(f"the audit hook saw {event} {arguments!r}", flush=True)
        os._exit(3)


sys.addaudithook(hook)

if __name__ == "__main__":
    main()
