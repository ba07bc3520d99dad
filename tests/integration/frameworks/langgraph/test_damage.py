"""Whatever is wrong with a thread is named each time it is met, can be left behind, and can be deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import relight
from relight.errors import Corrupt
from relight.frameworks.langgraph import RelightSaver, naming
from relight.frameworks.langgraph.records import ListPart, MapPart, Put, pack
from relight.library.facade import Relight
from relight.sessions import record_log
from relight.values.status import StatusChange
from tests.integration.frameworks.langgraph.graphs import checkpoint, config, conversation, put


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


def record(**fields: Any) -> bytes:
    """A checkpoint's, newer than all others, with something odd in it."""
    rest, metadata = raw({"v": 4, "channel_versions": {"messages": 9}}), raw({"source": "loop", "step": 9})
    whole = {"id": checkpoint({})["id"], "rest": rest, "metadata": metadata, "values": {"messages": raw([])}}
    return pack(Put(**{**whole, **fields}))


ODD = {
    "no record": lambda: msgspec.msgpack.encode({}),
    "of no kind": lambda: msgspec.msgpack.encode({"kind": "other"}),
    "no mapping": lambda: record(rest=raw([1])),
    "no metadata": lambda: record(metadata=raw("text")),
    "a value that cannot be one": lambda: record(values={"messages": raw({"$": "datetime", "v": "noon"})}),
    "a list on nothing": lambda: record(values={}, lists={"messages": ListPart(size=2, base=1, keep=2)}),
    "a list of another size": lambda: record(values={}, lists={"messages": ListPart(size=9)}),
    "a mapping on nothing": lambda: record(values={}, maps={"messages": MapPart(size=1, base=3)}),
    "a mapping without what goes": lambda: record(values={}, maps={"messages": MapPart(size=0, gone=["x"])}),
    "a value elsewhere": lambda: record(values={}, at={"messages": 99}),
}


def append(rl: Relight, data: bytes) -> int:
    """As one would who can write to the store: whole and sealed, but no record of the saver's."""
    found = naming.locate(rl._context, "t")
    assert found is not None
    opened = record_log.open_log(rl._context, found)
    for _ in record_log.read_and_claim(opened, 5.0):
        pass
    return opened.append(data, "state", status=StatusChange(status="completed"), release=True).seq


@pytest.mark.parametrize("what", ODD)
def test_a_step_that_holds_no_checkpoint_is_named_each_time_and_can_be_left_behind(what: str) -> None:
    with relight.open("memory:") as rl:
        with RelightSaver(rl) as before:
            made = conversation(before, "t", 3)
        seq = append(rl, ODD[what]())
        saver = RelightSaver(rl)
        for _ in range(2):
            with pytest.raises(Corrupt) as found:
                saver.get_tuple(config("t"))
            assert found.value.seq == seq and found.value.offered == f"t@{seq - 1}"
            assert "saver.recover('t')" in found.value.hints[0]
        assert saver.recover("t") == made[-1]
        for again in (saver, RelightSaver(rl)):
            loaded = again.get_tuple(config("t"))
            assert loaded is not None and len(loaded.checkpoint["channel_values"]["messages"]) == 3
        put(saver, made[-1], {"messages": ["goes on"]}, 4)


@pytest.mark.parametrize("act", ["recover", "delete"])
def test_a_thread_whose_own_row_is_damaged_goes_on_or_goes(tmp_path: Path, act: str) -> None:
    path = tmp_path / "r.db"
    with relight.open(path) as rl:
        saver = RelightSaver(rl)
        made = conversation(saver, "t", 3)
        saver.close()
    connection = apsw.Connection(str(path))
    (sealed,) = connection.execute("SELECT record FROM heads").fetchone() or (b"",)
    connection.execute("UPDATE heads SET record = ?", (bytes(sealed)[:-1] + bytes([bytes(sealed)[-1] ^ 1]),))
    connection.close()
    with relight.open(path) as rl:
        saver = RelightSaver(rl)
        with pytest.raises(Corrupt) as found:
            saver.get_tuple(config("t"))
        assert "saver.recover('t')" in found.value.hints[0]
        if act == "delete":
            saver.delete_thread("t")
            assert saver.get_tuple(config("t")) is None and list(rl.sessions.list()) == []
        else:
            assert saver.recover("t") == made[-1]
            put(saver, made[-1], {"messages": ["goes on"]}, 4)
