"""A parent with eight children, in threads, tasks, processes and a fleet; each has one effect, a line in a file.

python -m tests.support.programs.parent_of_eight STORE FILE          the parent, until all have a result
python -m tests.support.programs.parent_of_eight STORE FILE NAME     one child in a process of its own
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import relight
from relight.errors import ChildFailed, Finished, InDoubt, LeaseHeld, NotFound
from relight.sessions.session import Session

THREADS, TASKS, PROCESSES, QUEUED = ("t0", "t1"), ("a0", "a1"), ("p0", "p1"), ("q0", "q1")
NAMES = (*THREADS, *TASKS, *PROCESSES, *QUEUED)
ROUNDS = 50
SECONDS = 60.0
HELLO = {"role": "user", "content": "begin"}


def write(path: str, name: str) -> str:
    """The effect: one line, whole or not at all."""
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(out, f"{name}\n".encode())
    os.close(out)
    return name


def work(child: Session, path: str) -> None:
    """What a child does, from wherever it stopped."""
    name = (child.name or "").rpartition(".")[2]
    with child:
        if child.is_finished:
            return
        if child.is_new:
            child.append(HELLO)
        try:
            child.once("effect", lambda: write(path, name))
        except InDoubt:
            child.settle("effect", name) if name in lines(path) else child.settle("effect", retry=True)
            child.once("effect", lambda: write(path, name))
        child.complete(name)


def lines(path: str) -> list[str]:
    """The effects that happened."""
    return Path(path).read_text(encoding="utf-8").split() if Path(path).exists() else []


async def work_in_task(store: str, path: str, parent: str, name: str) -> None:
    """The same on an event loop."""
    async with relight.aio.open(store) as rl:
        child = await rl.session(f"parent.{name}", parent=parent)
        await asyncio.to_thread(work, child._sync, path)


def begin(rl: relight.Relight, s: Session, store: str, path: str) -> None:
    """Continue every child that has no result, and wait for what was begun here."""
    children = {one.name: one.status for one in s.children()}
    todo = [name for name in NAMES if children.get(name) != "completed"]
    own = [sys.executable, "-m", "tests.support.programs.parent_of_eight", store, path]
    for name in QUEUED:
        if name not in children:
            rl.queues.submit([*own, name, s.id], name=f"parent.{name}", parent=s.id)
        elif children[name] == "failed":  # its program was killed beside a worker that lives
            rl.queues.enqueue(f"parent.{name}")
    started = [subprocess.Popen([*own, name, s.id]) for name in PROCESSES if name in todo]
    threads = [threading.Thread(target=work, args=(s.spawn(name), path)) for name in THREADS if name in todo]

    async def tasks() -> None:
        await asyncio.gather(*(work_in_task(store, path, s.id, name) for name in TASKS if name in todo))

    threads.append(threading.Thread(target=asyncio.run, args=(tasks(),)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    for process in started:
        process.wait(SECONDS)


def main(store: str, path: str, *child: Any) -> None:
    """Run as the parent, or as one child of it."""
    with relight.open(store) as rl:
        if child:
            name, parent = child
            try:
                work(rl.session(f"parent.{name}", parent=parent), path)
            except (LeaseHeld, Finished):
                return  # one that outlived the parent before still works on it
            return
        with rl.session("parent") as s:
            for _ in range(ROUNDS):
                if s.is_finished:
                    return
                begin(rl, s, store, path)
                try:
                    s.complete(s.join(*NAMES, timeout=SECONDS))
                except (ChildFailed, NotFound):
                    continue  # one of them was killed


if __name__ == "__main__":
    main(*sys.argv[1:])
