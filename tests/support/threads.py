"""Threads that begin at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable


def together(count: int, act: Callable[[int], None]) -> None:
    """Act in so many threads at once; the first error of any is raised when all have ended."""
    gate, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            gate.wait()
            act(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
