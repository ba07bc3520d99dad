"""Appends events to a run of the Cursor SDK from several threads, and tells each that is durable."""

from __future__ import annotations

import os
import threading

import relight
from relight.frameworks.cursor import RelightAgentStore


def main(store: str, run: str, me: str, threads: int, count: int, reported: str) -> None:
    """One line `ME.THREAD.NUMBER SEQ` for each append that has returned."""
    out = os.open(reported, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with relight.open(store) as rl:
        events = RelightAgentStore(rl).run_events

        def append(thread: int) -> None:
            for number in range(count):
                mark = f"{me}.{thread}.{number}"
                event = events.append({"runId": run, "eventType": "delta", "payload": {"mark": mark}})
                os.write(out, f"{mark} {event['seq']}\n".encode())

        workers = [threading.Thread(target=append, args=(thread,)) for thread in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
