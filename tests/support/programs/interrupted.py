"""A program whose signal handler raises in the middle of its appends, again and again, beside threads that append too.

    python -m tests.support.programs.interrupted STORE SECONDS AGAIN_SECONDS

Every other append is made while the exception of the one before is still being handled. Prints one line of JSON.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from typing import Any

import relight
from relight.errors import StoreUnavailable

SPAN_SECONDS = 0.0015
HUNG_SECONDS = 30.0


class Bang(Exception):
    """From the handler."""


ARMED = [False]
"""off before anything else that the program does for itself: turning it off cannot be interrupted"""


def bang(*_: Any) -> None:
    if ARMED[0]:
        raise Bang


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def work(rl: relight.Relight, seconds: float, again: float) -> dict[str, Any]:
    chance, acknowledged, bangs, refused = random.Random(1), [], 0, 0
    end = time.monotonic() + seconds
    number = 0
    with rl.session("main") as s:
        loaded = set(sys.modules)
        while time.monotonic() < end:
            number += 1
            try:
                first = chance.random() * SPAN_SECONDS + 1e-6
                ARMED[0] = True
                signal.setitimer(signal.ITIMER_REAL, first, again)
                s.append(user(f"a{number}"))
                ARMED[0] = False
                acknowledged.append(f"a{number}")
            except Bang:
                ARMED[0] = False
                bangs += 1
                try:
                    s.append(user(f"b{number}"))
                    acknowledged.append(f"b{number}")
                except relight.RelightError:
                    refused += 1
            except relight.RelightError:
                ARMED[0] = False
                refused += 1
        s.append(user("last"))
        seen = s.messages
        imported = sorted(set(sys.modules) - loaded)
    there = Counter(message["content"] for message in rl.history.load("main").messages)
    return {
        "unseen": len(rl.history.load("main").messages) - len(seen),
        "imported": imported,
        "appends": number,
        "bangs": bangs,
        "refused": refused,
        "lost": sum(1 for one in acknowledged if not there[one]),
        "doubled": sum(1 for times in there.values() if times > 1),
    }


def main() -> None:
    store, seconds, again = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    faulthandler.dump_traceback_later(seconds + HUNG_SECONDS, exit=True)
    signal.signal(signal.SIGALRM, bang)
    stop, foreign = threading.Event(), []
    with relight.open(store) as rl:

        def beside(number: int) -> None:
            with rl.session(f"beside-{number}") as s:
                while not stop.is_set():
                    try:
                        s.append(user("x"))
                    except StoreUnavailable:
                        continue  # the leader was interrupted twice: nobody knew
                    except BaseException as error:
                        foreign.append(repr(error))
                        return

        threads = [threading.Thread(target=beside, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            reported = work(rl, seconds, again)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            stop.set()
            for thread in threads:
                thread.join()
        print(json.dumps(reported | {"foreign": foreign, "ok": rl.history.verify().ok}))


if __name__ == "__main__":
    main()
