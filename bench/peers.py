"""LangGraph's savers beside ours: the growing transcript, one `put` a message, in one process, the same messages.

    relight       the library itself, `s.append`
    RelightSaver  the checkpointer on relight
    SqliteSaver   LangGraph's own, which writes the whole state at every save
    DeltaChannel  SqliteSaver below LangGraph's delta channel: the write, then a checkpoint that holds a full value
                  every so many saves

All on SQLite with WAL and synchronous=FULL, so that each save is as durable as the others'. A save of SqliteSaver costs
what the state has become: to save 4,000 times takes minutes and gigabytes. So, unless told otherwise, it saves a few
times at each of a number of sizes, and its whole run is the sum over all sizes of what lies between them; what is
measured and what is added up is said in the output.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite import SqliteSaver

import relight
from bench.workload import Transcript
from relight.frameworks.langgraph import RelightSaver

WINDOW = 200
SIZES = 16
SAVES_A_SIZE = 5
SNAPSHOT_EVERY = 1000
THREAD = "growing"


def messages(turns: int) -> Iterator[tuple[dict[str, Any], BaseMessage]]:
    """Each message of the workload: as the provider's dict, and as LangChain's."""
    transcript = Transcript()
    for number in range(turns):
        reply, result = transcript.turn()
        text, use = reply["content"]
        call = {"name": use["name"], "args": use["input"], "id": use["id"], "type": "tool_call"}
        yield reply, AIMessage(content=text["text"], tool_calls=[call], id=f"a{number}")
        content = result["content"][0]["content"]
        yield result, ToolMessage(content=content, tool_call_id=use["id"], id=f"t{number}")


def config(id: str | None = None) -> Any:
    """Of the one thread."""
    configurable = {"thread_id": THREAD, "checkpoint_ns": ""}
    return {"configurable": configurable if id is None else {**configurable, "checkpoint_id": id}}


def checkpoint(step: int, values: dict[str, Any]) -> Any:
    """As a graph of one agent node makes it."""
    return {
        "v": 4,
        "id": str(uuid6(clock_seq=step)),
        "ts": "2026-11-15T12:00:00.000000+00:00",
        "channel_values": values,
        "channel_versions": {"__start__": 1, "messages": step, "branch:to:agent": step},
        "versions_seen": {"__input__": {}, "__start__": {"__start__": 1}, "agent": {"branch:to:agent": step - 1}},
        "updated_channels": ["messages"],
    }


class Saves:
    """One contender: what its saves took."""

    def __init__(self, saver: Any, *, delta: bool = False) -> None:
        self.saver, self.delta = saver, delta
        self.seconds: list[float] = []
        self.at = config()

    def save(self, step: int, state: list[BaseMessage]) -> float:
        """One durable save of a state that has grown by one message."""
        values: dict[str, Any] = {"messages": state}
        if self.delta:
            values = {"messages": _DeltaSnapshot(state)} if step % SNAPSHOT_EVERY == 0 else {}
        made = checkpoint(step, values)
        metadata: Any = {"source": "loop", "step": step, "parents": {}}
        started = time.perf_counter()
        if self.delta and "checkpoint_id" in self.at["configurable"]:
            self.saver.put_writes(self.at, [("messages", state[-1:])], str(step), "~pull")
        self.at = self.saver.put(self.at, made, metadata, {"messages": step})
        self.seconds.append(time.perf_counter() - started)
        return self.seconds[-1]


def sqlite_saver(path: Path) -> SqliteSaver:
    """LangGraph's own, as durable as ours."""
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    return saver


def measure(directory: Path, turns: int, *, full: bool = False) -> dict[str, Any]:
    """Everything, in one run."""
    pairs = list(messages(turns))
    size = sum(len(json.dumps(raw)) for raw, _ in pairs)
    state: list[BaseMessage] = []
    rl = relight.open(directory / "ours.db")
    own = relight.open(directory / "own.db")
    session = own.session("growing", agent="bench")
    ours = Saves(RelightSaver(rl))
    theirs = Saves(sqlite_saver(directory / "delta.db"), delta=True)
    library: list[float] = []
    for step, (raw, message) in enumerate(pairs, 1):
        state = [*state, message]
        started = time.perf_counter()
        session.append(raw)
        library.append(time.perf_counter() - started)
        ours.save(step, state)
        theirs.save(step, state)
    session.complete()
    warm = _median_ms(lambda: list(ours.saver.list(config())))
    own.close()
    ours.saver.close()
    rl.close()
    theirs.saver.conn.close()
    whole = _everything(directory, pairs) if full else _sampled(directory, pairs)
    fresh = [_fresh(directory / "ours.db") for _ in range(5)]
    return {
        "turns": turns,
        "saves": len(pairs),
        "transcript_bytes": size,
        "library": _figures(library, directory / "own.db", size),
        "RelightSaver": _figures(ours.seconds, directory / "ours.db", size)
        | {"list_ms": warm}
        | {key: statistics.median(one[key] for one in fresh) for key in fresh[0]},
        "DeltaChannel": _figures(theirs.seconds, directory / "delta.db", size),
        "SqliteSaver": whole | {"bytes_ratio": whole["bytes"] / size},
    }


def _figures(seconds: list[float], path: Path, size: int) -> dict[str, float]:
    window = min(WINDOW, max(1, len(seconds) // 4))
    return {
        "start_ms": statistics.median(seconds[:window]) * 1e3,
        "end_ms": statistics.median(seconds[-window:]) * 1e3,
        "p99_ms": sorted(seconds)[int(len(seconds) * 0.99)] * 1e3,
        "total_s": sum(seconds),
        "bytes_ratio": _size(path) / size,
    }


def _everything(directory: Path, pairs: list[Any]) -> dict[str, Any]:
    """Every save of SqliteSaver: minutes, and gigabytes of disk."""
    saves = Saves(sqlite_saver(directory / "whole.db"))
    state: list[BaseMessage] = []
    for step, (_, message) in enumerate(pairs, 1):
        state = [*state, message]
        saves.save(step, state)
    saves.saver.conn.close()
    found = _figures(saves.seconds, directory / "whole.db", 1)
    return {**found, "bytes": found["bytes_ratio"], "how": f"all {len(pairs):,} saves"}


def _sampled(directory: Path, pairs: list[Any]) -> dict[str, Any]:
    """A few saves at each of a number of sizes, and the sum of what lies between them."""
    saves = Saves(sqlite_saver(directory / "sampled.db"))
    sizes = sorted({max(1, round(len(pairs) * part / SIZES)) for part in range(SIZES + 1)})
    points: list[tuple[int, float, float]] = []
    for count in sizes:
        state = [message for _, message in pairs[:count]]
        before = _size(directory / "sampled.db")
        seconds = [saves.save(count + number, state) for number in range(SAVES_A_SIZE)]
        saves.saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        grown = (_size(directory / "sampled.db") - before) / SAVES_A_SIZE
        points.append((count, statistics.median(seconds), grown))
    saves.saver.conn.close()
    return {
        "start_ms": points[0][1] * 1e3,
        "end_ms": points[-1][1] * 1e3,
        "total_s": _between(points, 1),
        "bytes": _between(points, 2),
        "how": f"{SAVES_A_SIZE} saves at each of {len(points)} sizes, added up over {len(pairs):,}",
    }


def _between(points: list[tuple[int, float, float]], which: int) -> float:
    return sum((right[0] - left[0]) * (left[which] + right[which]) / 2 for left, right in pairwise(points))


def _fresh(path: Path) -> dict[str, float]:
    """Load the head, the middle, list all, in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers_once", str(path)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _median_ms(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(7):
        gc.collect()
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.glob(path.name + "*") if one.is_file())
