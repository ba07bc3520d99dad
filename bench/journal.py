"""Ours beside the floor: the growing transcript, loading, listing, many writers. Ratios of one run, interleaved."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import relight
import relight.aio
from bench.floor import RawGrouped, RawInsert
from bench.workload import Transcript

WINDOW = 200


def percentile(values: list[float], share: float) -> float:
    """The value below which this share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def growing(directory: Path, turns: int) -> dict[str, Any]:
    """Save a transcript with both, alternating, then close, load and list."""
    transcript, raw = Transcript(), RawInsert(directory / "raw.db")
    rl = relight.open(directory / "ours.db")
    ours_times: list[float] = []
    raw_times: list[float] = []
    size = 0
    with rl.session("grow", agent="bench") as s:
        s.append({"role": "user", "content": "go"})
        for _ in range(turns):
            for message in transcript.turn():
                size += len(json.dumps(message))
                raw_times.append(raw.save(message))
                started = time.perf_counter()
                s.append(message)
                ours_times.append(time.perf_counter() - started)
        s.complete()
    listed = [_timed(lambda: rl.history.checkpoints("grow")) for _ in range(7)]
    rl.close()
    raw.close()
    resume = [_fresh_load(directory) for _ in range(5)]
    return {
        "turns": turns,
        "saves": len(ours_times),
        "transcript_bytes": size,
        "ours_ms": [round(value * 1e3, 4) for value in ours_times],
        "raw_ms": [round(value * 1e3, 4) for value in raw_times],
        "save_ratio_start": _p50(ours_times[:WINDOW]) / _p50(raw_times[:WINDOW]),
        "save_ratio_end": _p50(ours_times[-WINDOW:]) / _p50(raw_times[-WINDOW:]),
        "save_growth": _p50(ours_times[-WINDOW:]) / _p50(ours_times[:WINDOW]),
        "p99_ratio": percentile(ours_times, 0.99) / percentile(raw_times, 0.99),
        "bytes_ratio": _size(directory / "ours.db") / size,
        "raw_bytes_ratio": _size(directory / "raw.db") / size,
        "list_ms": statistics.median(listed) * 1e3,
        "load_ms": statistics.median(ours for ours, _ in resume) * 1e3,
        "load_raw_ms": statistics.median(raw for _, raw in resume) * 1e3,
        "load_ratio": statistics.median(ours / raw for ours, raw in resume),
    }


def _fresh_load(directory: Path) -> tuple[float, float]:
    """(ours, raw) seconds to load the whole conversation, in a new process, alternating."""
    out = subprocess.run(
        [sys.executable, "-m", "bench.load_once", str(directory)], capture_output=True, text=True, check=True
    )
    ours, raw = json.loads(out.stdout)
    return ours, raw


def _timed(function: Any) -> float:
    gc.collect()
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def _p50(values: list[float]) -> float:
    return statistics.median(values)


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.glob(path.name + "*") if one.is_file())


def many_writers(directory: Path, *, writers: int = 32, saves: int = 6400) -> dict[str, Any]:
    """Threads with a session each on one file, beside as many whose raw INSERTs share a commit; best of three."""
    transcript = Transcript(seed=11)
    messages = [message for _ in range(200) for message in transcript.turn()]
    ours: list[float] = []
    floors: list[float] = []
    for number in range(3):
        raw = RawGrouped(directory / f"floor{number}.db")
        floors.append(
            _threads(
                messages, writers, saves, lambda writer, message, seq, raw=raw: raw.save(message, f"s{writer}", seq)
            )
        )
        raw.close()
        with relight.open(directory / f"many{number}.db") as rl:
            sessions = [rl.session(f"w{writer}") for writer in range(writers)]
            ours.append(
                _threads(
                    messages, writers, saves, lambda writer, message, seq, all=sessions: all[writer].append(message)
                )
            )
            for session in sessions:
                session.complete()
    return {
        "writers": writers,
        "saves_per_second": max(ours),
        "floor_per_second": max(floors),
        "ratio": max(ours) / max(floors),
    }


def _threads(messages: list[dict[str, Any]], writers: int, saves: int, save: Any) -> float:
    """Saves a second of so many threads, each saving its share."""
    ready = threading.Barrier(writers + 1)

    def write(number: int) -> None:
        ready.wait()
        for index in range(saves // writers):
            save(number, messages[(index * writers + number) % len(messages)], index)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    ready.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return saves / (time.perf_counter() - started)


def async_sessions(directory: Path, *, sessions: int = 1_000, saves: int = 3, pause: float = 1.0) -> dict[str, Any]:
    """Sessions that save now and then: as tasks of one event loop, and as threads; the same load, one after the
    other."""
    transcript = Transcript(seed=13)
    message = transcript.turn()[0]
    pauses = [random.Random(number).random() * pause for number in range(sessions * saves)]

    async def tasks() -> list[float]:
        times: list[float] = []

        async def work(session: Any, number: int) -> None:
            for index in range(saves):
                await asyncio.sleep(pauses[number * saves + index])
                started = time.perf_counter()
                await session.append(message)
                times.append(time.perf_counter() - started)

        async with relight.aio.open(directory / "tasks.db") as rl:
            opened = [await rl.session(f"t{number}") for number in range(sessions)]
            await asyncio.gather(*(work(session, number) for number, session in enumerate(opened)))
        return times

    def threads() -> list[float]:
        times: list[float] = []

        def work(session: Any, number: int) -> None:
            for index in range(saves):
                time.sleep(pauses[number * saves + index])
                started = time.perf_counter()
                session.append(message)
                times.append(time.perf_counter() - started)

        with relight.open(directory / "threads.db") as rl:
            opened = [rl.session(f"t{number}") for number in range(sessions)]
            started = [threading.Thread(target=work, args=(session, number)) for number, session in enumerate(opened)]
            for thread in started:
                thread.start()
            for thread in started:
                thread.join()
        return times

    sync, awaited = _p50(threads()), _p50(asyncio.run(tasks()))
    return {"sessions": sessions, "async_ms": awaited * 1e3, "sync_ms": sync * 1e3, "ratio": awaited / sync}


def start_up() -> dict[str, float]:
    """Import and `relight list`, wall time, median of seven, beside a bare interpreter."""

    def wall(*arguments: str) -> float:
        times = []
        for _ in range(7):
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            times.append(time.perf_counter() - started)
        return statistics.median(times) * 1e3

    bare = wall("-c", "pass")
    return {"bare_ms": bare, "import_ms": wall("-c", "import relight") - bare, "list_ms": wall("-m", "relight", "list")}
