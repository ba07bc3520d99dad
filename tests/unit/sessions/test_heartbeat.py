"""The heartbeat: it may be stopped at any moment, also while it is being started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from relight.sessions.heartbeat import Heartbeat


class Kept:
    """A holder that has no lease at present."""

    def beat_seconds(self) -> float | None:
        return None

    def beat(self) -> None:
        raise AssertionError("without a lease there is nothing to renew")


def test_stopping_beside_a_first_session_never_joins_a_thread_that_has_not_started(
    monkeypatch: pytest.MonkeyPatch, sample: Callable[..., int]
) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def slowly(thread: threading.Thread) -> None:
        if thread.name == "relight-heartbeat":
            started.append(thread)
            time.sleep(0.002)  # the moment between its being known and its being started
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    for _ in range(sample(20, proof=1_000)):
        heartbeat, recorder = Heartbeat(), Kept()
        errors: list[BaseException] = []

        def act(what: Callable[..., Any], *args: Any, errors: list[BaseException] = errors) -> None:
            try:
                what(*args)
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=act, args=(heartbeat.add, recorder)),
            threading.Thread(target=act, args=(heartbeat.stop,)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        heartbeat.stop()
        assert errors == []
    assert not [one for one in started if one.is_alive()]
