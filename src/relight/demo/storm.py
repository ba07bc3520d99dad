"""`relight demo --storm`: an agent is killed at random moments until it finishes, and compared with an undisturbed run.

The delays are drawn from a seed, as fractions of an undisturbed run. After each kill every step that was there before
must be there unchanged, and the journal and every captured file must verify.
"""

from __future__ import annotations

import random
import time
from typing import Final

import relight
from relight.demo import shop
from relight.demo.screen import Screen
from relight.demo.stage import Agent, Stage
from relight.demo.story import Play

ALONE: Final = "alone"
STORM: Final = "storm"
MAX_KILLS: Final = 20
LIFE_SHARE: Final = 0.2
"""mean time until a kill, as a share of an undisturbed run"""
EARLY: Final = 4
EARLY_SHARE: Final = 0.12
"""the first kills come within this share: a storm of one kill shows little"""


def play(stage: Stage, screen: Screen, rl: relight.Relight, seed: int) -> Play:
    """Play the storm; returns its numbers and claims."""
    run, begun = Play(stage, screen, rl), time.monotonic()
    run.numbers |= {"seed": seed, "kills": 0, "steps_lost": 0, "problems": 0}
    agent = stage.start(ALONE)
    screen.part("The task, left alone", f"pid {agent.pid}")
    agent.wait_ready()
    started = time.monotonic()
    agent.wait_end()
    seconds = time.monotonic() - started
    run.numbers["alone"] = alone = stage.count(ALONE) | {"steps": rl.sessions.get(ALONE).seq}
    screen.verdict(f"{alone['steps']} steps, {alone['mails']} mail, in {seconds:.2f} s", True)
    screen.part("The same task, and kill -9 at random moments until it is done anyway")
    _kill_until_done(run, random.Random(seed), seconds)
    _compare(run)
    counted = run.numbers["storm"]
    run.numbers["seconds"] = round(time.monotonic() - begun, 3)
    screen.put()
    screen.put(
        f"   kills {run.numbers['kills']}  attempts {counted['attempts']}  steps {counted['steps']}  repeated "
        f"{counted['model_calls_repeated']}  mails {counted['mails']}      in {run.numbers['seconds']:.1f} s"
    )
    return run


def _kill_until_done(run: Play, drawn: random.Random, seconds: float) -> None:
    numbers = run.numbers
    for life in range(1, MAX_KILLS + 2):
        agent = run.stage.start(STORM)
        agent.wait_ready()
        # Exponential, so that long tools are reached too. The bound: the last life is not killed.
        share = drawn.expovariate(1 / LIFE_SHARE)
        delay = seconds * (min(share, EARLY_SHARE) if numbers["kills"] < EARLY else share)
        if life > MAX_KILLS:
            agent.wait_end()
        done = life > MAX_KILLS or not _killed_after(agent, delay)
        numbers["kills"] += not done
        _check(run)
        seq = run.events[-1].seq if run.events else 0
        if done:
            run.screen.step(seq, "life", f"{life:<2} came to its end", "✓", "done")
            return
        doubtful = [call.name for call in run.rl.runs.plan(STORM).in_doubt] if run.events else []
        note = f"{', '.join(doubtful)} in doubt" if doubtful else ""
        run.screen.step(seq, "life", f"{life:<2} killed after {delay * 1000:4.0f} ms", "†", note)


def _killed_after(agent: Agent, seconds: float) -> bool:
    return not agent.wait(seconds) and agent.kill()


def _check(run: Play) -> None:
    """Count steps that were there and are not now, and problems of the journal and the files."""
    if run.rl.sessions.find(STORM) is None:
        return
    events = list(run.rl.history.events(STORM))
    run.numbers["steps_lost"] += sum(one not in events for one in run.events)
    run.numbers["problems"] += len(run.rl.history.verify(STORM).problems)
    run.events = events


def _compare(run: Play) -> None:
    rl, stage, screen, numbers = run.rl, run.stage, run.screen, run.numbers
    info = rl.sessions.get(STORM)
    numbers["storm"] = stage.count(STORM) | {"steps": info.seq, "attempts": info.attempt, "status": info.status}
    counted, kills = numbers["storm"], numbers["kills"]
    calm, stormy = rl.history.load(ALONE), rl.history.load(STORM)
    screen.part("Compared with the run that was left alone")
    screen.verdict(
        f"conversation  {len(stormy.messages)} messages, no step lost; it ends with the same words",
        all(
            [
                run.claim(
                    "last message as without kills", stormy.messages[-1]["content"], calm.messages[-1]["content"]
                ),
                run.claim("steps lost", numbers["steps_lost"], 0),
                run.claim("calls without a result", sum(call.result is None for call in stormy.calls), 0),
                run.claim("status at the end", info.status, "completed"),
            ]
        ),
    )
    screen.verdict(
        "effects       one mail, one edit, at most one reply a kill paid again",
        all(
            [
                run.claim("mails", counted["mails"], 1),
                run.claim("edits", counted["edits"], 1),
                run.claim("at most one model call repeated a kill", counted["model_calls_repeated"] <= kills),
            ]
        ),
    )
    same = shop.files(stage.root / STORM) == shop.files(stage.root / ALONE)
    intact = run.claim("problems in journal and files after any kill", numbers["problems"], 0)
    screen.verdict("files         byte for byte, and intact after every kill", run.claim("same files", same) and intact)
