"""`relight demo --storm`: an agent is killed at random moments until it finishes, and compared with an undisturbed run.

The delays after each start are drawn from a seed, as fractions of an undisturbed run. The comparison allows one
difference only: a mail whose outcome was unknown, and the check of the outbox that follows. After each kill the journal
is verified, and every snapshot that a checkpoint names is read completely.
"""

from __future__ import annotations

import random
import time
from itertools import zip_longest
from typing import Any, Final

import msgspec

import relight
from relight.cli.render.style import Span
from relight.demo import script, shop
from relight.demo.claims import Claims
from relight.demo.counting import count
from relight.demo.going_back import read_snapshots
from relight.demo.screen import Screen
from relight.demo.stage import Player, Stage
from relight.history.events import Event
from relight.values.call import OUTCOME_UNKNOWN

ALONE: Final = "alone"
STORM: Final = "storm"
MAX_KILLS: Final = 20
LIFE_SHARE: Final = 0.2
"""mean time until a kill, as a share of an undisturbed run"""
EARLY: Final = 5
"""so many kills come early: a storm of one kill shows little"""
EARLY_SHARE: Final = 0.25
THINK_SECONDS: Final = 0.03
TRANSIT_SECONDS: Final = 0.04

Round = tuple[str, list[tuple[str, Any, str]]]


class Storm:
    """One run of the storm: its numbers and claims."""

    def __init__(self, stage: Stage, screen: Screen, rl: relight.Relight, seed: int) -> None:
        self._stage = stage
        self._screen = screen
        self._rl = rl
        self._random = random.Random(seed)
        self._seen: list[Event] = []
        self.claims = Claims()
        self.numbers: dict[str, Any] = {"seed": seed, "kills": 0, "lives": 0, "steps_lost": 0, "problems": 0}
        self.numbers |= {"snapshots": 0, "snapshots_damaged": 0}

    def run(self) -> None:
        begun = time.monotonic()
        life_seconds = self._undisturbed()
        self._kill_until_done(life_seconds)
        self._compare()
        self.numbers["seconds"] = round(time.monotonic() - begun, 3)

    def _undisturbed(self) -> float:
        """Run the agent without a kill; returns how long it worked."""
        agent = self._stage.start_agent(ALONE)
        self._screen.part("The task, left alone", f"pid {agent.pid}")
        agent.wait_ready()
        begun = time.monotonic()
        agent.wait_end()
        seconds = time.monotonic() - begun
        self.numbers["alone"] = counted = self._count(ALONE)
        made = f"{counted['steps']} steps, {counted['model_calls']} model calls, {counted['mails']} mail"
        self._screen.verdict(f"{made}, {counted['tests_passed']} tests pass, in {seconds:.2f} s", "✓")
        self._screen.pause(3)
        return seconds

    def _kill_until_done(self, life_seconds: float) -> None:
        self._screen.part("The same task, and kill -9 at random moments until it is done anyway")
        for life in range(1, MAX_KILLS + 2):
            self.numbers["lives"] = life
            agent = self._stage.start_agent(STORM)
            agent.wait_ready()
            # The bound: the last life is not killed, whatever the seed says.
            if life > MAX_KILLS:
                agent.wait_end()
                break
            delay = self._delay(life_seconds)
            if agent.wait(delay) or not self._kill(agent, life, delay):
                break
        self._check()
        seq = self._seen[-1].seq if self._seen else 0
        self._screen.step(seq, "life", f"{self.numbers['lives']:<2} came to its end", "✓", "done")
        self._screen.pause(3)

    def _delay(self, life_seconds: float) -> float:
        """Delay until the next kill; exponential, so that long tools are reached too."""
        drawn = self._random.expovariate(1 / LIFE_SHARE)
        return life_seconds * (min(drawn, EARLY_SHARE) if self.numbers["kills"] < EARLY else drawn)

    def _kill(self, agent: Player, life: int, delay: float) -> bool:
        """Kill it and verify the journal; False if it had ended just before."""
        if not agent.kill():
            return False
        self.numbers["kills"] += 1
        self._check()
        seq = self._seen[-1].seq if self._seen else 0
        doubtful = ", ".join(call.name for call in self._rl.can_resume(STORM).in_doubt) if self._seen else ""
        note = f"{doubtful} in doubt" if doubtful else ""
        self._screen.step(seq, "life", f"{life:<2} killed after {delay * 1000:4.0f} ms", "†", note)
        return True

    def _check(self) -> None:
        """Count lost steps, problems of the journal and damaged snapshots."""
        if self._rl.find(STORM) is None:
            return
        events = list(self._rl.tail(STORM))
        self.numbers["steps_lost"] += sum(one != two for one, two in zip(self._seen, events, strict=False))
        self.numbers["steps_lost"] += max(0, len(self._seen) - len(events))
        self.numbers["problems"] += len(self._rl.verify(STORM).problems)
        held = read_snapshots(self._rl, STORM, self._stage.shop(STORM))
        self.numbers["snapshots"] = held.snapshots
        self.numbers["snapshots_damaged"] += held.damaged
        self._seen = events

    def _compare(self) -> None:
        self._screen.part("Compared with the run that was left alone")
        alone, numbers, claims = self.numbers["alone"], self.numbers, self.claims
        numbers["storm"] = counted = self._count(STORM)
        calm, stormy = self._rl.load(ALONE).messages, self._rl.load(STORM).messages
        unknown = [call for _, calls in script.rounds(stormy) for call in calls if call[2] == OUTCOME_UNKNOWN]
        numbers["in_doubt"] = len(unknown)
        differs = first_difference(settled(stormy), settled(calm, like=stormy))
        same = claims.equal("first difference of the conversations", differs, None)
        but = f', but for {len(unknown)} "outcome unknown"' if unknown else ""
        self._verdict(f"conversation  the same{but}", same)
        left, right = shop.files(self._stage.shop(STORM)), shop.files(self._stage.shop(ALONE))
        same = claims.equal("files as without kills", sorted(left.items()) == sorted(right.items()), True)
        self._verdict(f"files         {', '.join(left)}: byte for byte", same)
        self._verdict(
            f"snapshots     {numbers['snapshots']}, whole after each kill; the last one is the disk", self._held()
        )
        same = claims.equal("mails sent", counted["mails"], alone["mails"])
        self._verdict(f"mails         {counted['mails']}, counted outside", same)
        bounded = claims.at_most("model calls repeated", counted["model_calls_repeated"], numbers["kills"])
        self._verdict(f"model calls   {counted['model_calls_repeated']} repeated, at most one a kill", bounded)
        kept = [
            claims.equal("steps lost over all kills", numbers["steps_lost"], 0),
            claims.equal("problems found by verify after each kill", numbers["problems"], 0),
            claims.equal("status at the end", counted["status"], "completed"),
            claims.equal("tests that pass at the end", counted["tests_passed"], alone["tests"]),
        ]
        self._verdict("journal       no step lost, verified after each kill", all(kept))

    def _held(self) -> bool:
        held = read_snapshots(self._rl, STORM, self._stage.shop(STORM))
        return all(
            [
                self.claims.at_least("snapshots that checkpoints name", held.snapshots, 2),
                self.claims.equal("snapshots damaged after any kill", self.numbers["snapshots_damaged"], 0),
                self.claims.equal("files that differ from the last snapshot", held.last_differs, []),
            ]
        )

    def _verdict(self, text: str, kept: bool) -> None:
        self._screen.verdict(text, "✓" if kept else "✗")

    def _count(self, run: str) -> dict[str, Any]:
        info = self._rl.get(run)
        counted: dict[str, Any] = msgspec.to_builtins(count(self._stage, run))
        return counted | {"steps": info.seq, "attempts": info.attempt, "status": info.status}


def settled(messages: list[script.Message], *, like: list[script.Message] | None = None) -> list[Round]:
    """A conversation without ids and without the repetitions that a doubt causes, for comparison.

    A mail in doubt that was not sent: check and second attempt replace the first one. A mail in doubt that was sent
    keeps its result "outcome unknown"; `like` gives another conversation the same result.
    """
    replies = script.rounds(messages)
    # From the end: replacing three rounds by one moves only those behind it, which are done.
    for index in range(len(replies) - 3, -1, -1):
        if _is_doubt(replies[index]) and replies[index + 1][1][0][2] == script.NO_MAIL:
            again = replies[index + 2][1][0]
            replies[index : index + 3] = [(replies[index][0], [again])]
    if like is not None and any(_is_doubt(one) for one in settled(like)):
        replies = [(text, [_as_unknown(call) for call in calls]) for text, calls in replies]
    return replies


def first_difference(left: list[Round], right: list[Round]) -> str | None:
    """The first turn in which two conversations differ, or None."""
    for turn, (one, two) in enumerate(zip_longest(left, right), 1):
        if one != two:
            return f"turn {turn}: {one} and {two}"
    return None


def _is_doubt(one: Round) -> bool:
    return any(name == "send_mail" and result == OUTCOME_UNKNOWN for name, _, result in one[1])


def _as_unknown(call: tuple[str, Any, str]) -> tuple[str, Any, str]:
    return (call[0], call[1], OUTCOME_UNKNOWN) if call[0] == "send_mail" else call


def run_storm(stage: Stage, screen: Screen, seed: int) -> tuple[dict[str, Any], Claims]:
    """Run the storm; returns its numbers and claims."""
    stage.lay_out(ALONE)
    stage.lay_out(STORM)
    stage.start_world(think_seconds=THINK_SECONDS, transit_seconds=TRANSIT_SECONDS)
    with relight.open(stage.store) as rl:
        storm = Storm(stage, screen, rl, seed)
        storm.run()
    _sum_up(screen, storm.numbers)
    return storm.numbers, storm.claims


def opening(stage: Stage, screen: Screen, seed: int) -> None:
    """Print the first lines, with the seed."""
    screen.opening(
        [Span("relight demo --storm", "bold"), ": an agent fixes a bug, and we kill it, and again."],
        [Span(f"the same moments once more: relight demo --storm --seed {seed}", "dim")],
    )


def _sum_up(screen: Screen, numbers: dict[str, Any]) -> None:
    counted = numbers["storm"]
    left = (
        f"kills {numbers['kills']}  attempts {counted['attempts']}  steps {counted['steps']}"
        f"  repeated {counted['model_calls_repeated']}  mails {counted['mails']}"
    )
    screen.put()
    screen.right(left, f"in {numbers['seconds']:.1f} s")
