"""An event loop whose appends a signal handler interrupts anywhere, again and again, beside tasks of another loop.

    python -m tests.support.programs.interrupted_tasks STORE SECONDS

After each interruption the same loop goes on, as that of a notebook does. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import relight
import relight.aio

SPAN_SECONDS = 0.0004
AGAIN_SECONDS = 0.00005
"""until it comes where it raises"""
PATIENCE_SECONDS = 1.0
HUNG_SECONDS = 30.0
RELIGHT, ASYNCIO = (str(Path(one.__file__ or "").parent) for one in (relight, asyncio))
ARMED, LOST = [False], [0]


def bang(_: int, frame: FrameType | None) -> None:
    """Raises in relight and in what it calls; inside asyncio an exception may stop the loop or lose a task."""
    while frame is not None and not frame.f_code.co_filename.startswith((RELIGHT, ASYNCIO)):
        frame = frame.f_back
    if not ARMED[0]:
        return
    if frame is None or frame.f_code.co_filename.startswith(ASYNCIO):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        return
    ARMED[0] = False
    raise KeyboardInterrupt


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def interrupted(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], seconds: float) -> bool:
    """Whether the signal came while the loop ran."""
    try:
        ARMED[0] = True
        signal.setitimer(signal.ITIMER_REAL, seconds)
        loop.run_until_complete(asyncio.wait([task]))
        ARMED[0] = False
    except KeyboardInterrupt:
        return True
    finally:
        ARMED[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


async def ended(task: asyncio.Task[Any]) -> bool:
    """Whether it was acknowledged. A wakeup that asyncio itself lost with the interruption is made up for."""
    await asyncio.wait([task], timeout=PATIENCE_SECONDS)
    if not task.done():
        LOST[0] += 1
        task.cancel()
        await asyncio.wait([task])
    return not task.cancelled() and task.exception() is None


async def opened(store: str) -> relight.aio.AsyncRelight:
    return await relight.aio.open(store)


async def session(rl: relight.aio.AsyncRelight) -> relight.aio.AsyncSession:
    return await rl.session("main")


async def beside(store: str, stop: threading.Event) -> int:
    appended = 0
    async with relight.aio.open(store) as rl, await rl.session("beside") as s:
        while not stop.is_set():
            await s.append(user("x"))
            appended += 1
    return appended


def work(store: str, seconds: float) -> dict[str, Any]:
    chance, acknowledged, bangs, number = random.Random(1), [], 0, 0
    end = time.monotonic() + seconds
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, __: None)  # what an interrupted callback reports is what was asked for
    rl = loop.run_until_complete(opened(store))
    s = loop.run_until_complete(session(rl))
    loop.run_until_complete(s.append(user("first")))
    while time.monotonic() < end or not bangs:  # on a busy machine the first signal may come late
        number += 1
        task = loop.create_task(s.append(user(f"a{number}")))
        bangs += interrupted(loop, task, chance.random() * SPAN_SECONDS + 1e-6)
        if loop.run_until_complete(ended(task)):
            acknowledged.append(f"a{number}")
        loop.run_until_complete(s.append(user(f"b{number}")))
        acknowledged.append(f"b{number}")
    loop.run_until_complete(s.close())
    loop.run_until_complete(rl.close())
    loop.close()
    return {"appends": number, "bangs": bangs, "wakeups_lost": LOST[0], "acknowledged": acknowledged}


def main() -> None:
    store, seconds = sys.argv[1], float(sys.argv[2])
    faulthandler.dump_traceback_later(seconds + HUNG_SECONDS, exit=True)
    signal.signal(signal.SIGALRM, bang)
    stop, others = threading.Event(), []
    thread = threading.Thread(target=lambda: others.append(asyncio.run(beside(store, stop))))
    thread.start()
    try:
        reported = work(store, seconds)
    finally:
        stop.set()
        thread.join()
    with relight.open(store) as rl:
        there = Counter(message["content"] for message in rl.history.load("main").messages)
        reported["lost"] = sum(1 for one in reported.pop("acknowledged") if not there[one])
        reported["doubled"] = sum(1 for times in there.values() if times > 1)
        print(json.dumps(reported | {"beside": others, "ok": rl.history.verify().ok}))


if __name__ == "__main__":
    main()
