"""The story in parts: the agent starts, is killed, a plain loop starts again, relight goes on, back, and finds damage.

Each part acts, counts and claims; PARTS is the order. The loss comes first, because it makes the gain visible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

import relight
from relight.cli.render.style import Span
from relight.demo import shop
from relight.demo.claims import Claims
from relight.demo.counting import Count, count, mails, saves_us
from relight.demo.damage import damage_copy
from relight.demo.following import Follower
from relight.demo.going_back import NOTES, GoneBack, go_back_and_forth, look_through
from relight.demo.screen import Screen
from relight.demo.stage import Player, Stage, wait_until

RUN: Final = "demo"
"""the run with relight, and the name of its session"""
PLAIN: Final = "plain"
THINK_SECONDS: Final = 0.6
_TIMES: Final = {1: "once", 2: "twice"}


class Telling:
    """What the parts of one demo share."""

    def __init__(self, stage: Stage, screen: Screen, rl: relight.Relight) -> None:
        self.stage = stage
        self.screen = screen
        self.rl = rl
        self.claims = Claims()
        self.follower = Follower(rl, RUN, screen)
        self.numbers: dict[str, Any] = {}
        self.kills = {RUN: 0, PLAIN: 0}
        self.begun = time.monotonic()
        self.laid_out = shop.files(stage.shop(RUN))
        self.agent: Player

    def kill(self, run: str, player: Player) -> None:
        """`kill -9`, counted where it was this that ended it."""
        self.kills[run] += player.kill()


def tell(stage: Stage, screen: Screen) -> tuple[dict[str, Any], Claims]:
    """The whole demo; its numbers and its claims."""
    stage.lay_out(RUN)
    stage.lay_out(PLAIN)
    stage.start_world(think_seconds=THINK_SECONDS if screen.paced else 0.0, hasty=PLAIN, slow=f"{RUN},{PLAIN}")
    with relight.open(stage.store) as rl:
        telling = Telling(stage, screen, rl)
        for part in PARTS:
            part(telling)
    return telling.numbers, telling.claims


def start_agent(telling: Telling) -> None:
    """An agent works until its mail has arrived and the receipt has not."""
    stage, screen = telling.stage, telling.screen
    agent = telling.agent = stage.start_agent(RUN)
    screen.part("The agent starts", f"pid {agent.pid}; each line is read from its journal")
    telling.follower.until(lambda: mails(stage, RUN) > 0, agent, "sending its mail")
    screen.pause(4)


def kill_agent(telling: Telling) -> None:
    """It is killed in the middle of sending."""
    stage, screen, claims = telling.stage, telling.screen, telling.claims
    screen.part(f"kill -9 {telling.agent.pid}, in the middle of sending the mail")
    telling.kill(RUN, telling.agent)
    telling.follower.look()
    sent = mails(stage, RUN)
    telling.numbers["at_kill"] = {"mails": sent, "steps": telling.follower.seq}
    claims.equal("agents killed with signal 9", telling.kills[RUN], 1)
    claims.equal("mails sent when the agent was killed", sent, 1)
    screen.line("the process is gone; it never learned that the mail went out")
    screen.line(f"mails sent so far, counted outside: {sent}")
    screen.pause(5)


def start_again(telling: Telling) -> None:
    """A loop without relight dies at the same place, and starts again."""
    stage, screen, claims = telling.stage, telling.screen, telling.claims
    screen.part("What most loops do now: start again", "a plain loop, same script, same kill")
    first = stage.start_agent(PLAIN, durable=False)
    wait_until(lambda: mails(stage, PLAIN) > 0, first, "sending its mail")
    telling.kill(PLAIN, first)
    stage.start_agent(PLAIN, durable=False).wait_end()
    counted = count(stage, PLAIN)
    telling.numbers["plain"] = msgspec.to_builtins(counted) | {"kills": telling.kills[PLAIN]}
    claims.equal("mails sent by the plain loop", counted.mails, 2)
    claims.equal("edits made by the plain loop", counted.edits, 2)
    claims.at_least("model calls that the plain loop repeated", counted.model_calls_repeated, 1)
    again = f"{counted.model_calls_repeated} model calls again"
    edited = f"cart.py edited {_TIMES.get(counted.edits, f'{counted.edits} times')}"
    screen.verdict(f"{again}, {edited}, mails sent: {counted.mails}", "✗")
    screen.pause(5)


def go_on(telling: Telling) -> None:
    """The same program with relight, started again."""
    stage, screen, follower = telling.stage, telling.screen, telling.follower
    plan = telling.rl.can_resume(RUN)
    doubtful = [call.name for call in plan.in_doubt]
    before = list(follower.events)
    agent = stage.start_agent(RUN)
    screen.part("With relight: start the same program again", f"pid {agent.pid}")
    screen.line(f"conversation  {len(before)} steps, {plan.message_count} messages, all there")
    screen.line(f"calls         {', '.join(doubtful)} is in doubt, so it is not run again;")
    screen.line(f'              the model is told "{(plan.told or "").partition(":")[0]}", and looks')
    follower.until(agent.ended, agent, "its end")
    counted = count(stage, RUN)
    telling.numbers["relight"] = msgspec.to_builtins(counted) | {
        "kills": telling.kills[RUN],
        "in_doubt": doubtful,
        "steps": follower.seq,
    }
    kept = _claim_nothing_lost_or_repeated(telling, before, counted)
    done = f"model calls repeated: {counted.model_calls_repeated}    mails sent: {counted.mails}"
    screen.verdict(done, "✓" if kept else "✗")
    screen.pause(6)


def _claim_nothing_lost_or_repeated(telling: Telling, before: list[Any], counted: Count) -> bool:
    claims, follower, numbers = telling.claims, telling.follower, telling.numbers
    events = list(telling.rl.tail(RUN))
    lost = sum(one not in events for one in before)
    numbers["relight"] |= {"steps_lost": lost, "status": telling.rl.get(RUN).status}
    calls = telling.rl.load(RUN).calls
    return all(
        [
            claims.equal("calls in doubt after the kill", numbers["relight"]["in_doubt"], ["send_mail"]),
            claims.equal("steps lost", lost, 0),
            claims.equal("steps without a gap", follower.in_order(), True),
            claims.equal("model calls repeated with relight", counted.model_calls_repeated, 0),
            claims.equal("mails sent with relight", counted.mails, 1),
            claims.equal("edits made with relight", counted.edits, 1),
            claims.equal("tests that pass at the end", counted.tests_passed, counted.tests),
            claims.equal("calls without a result", sum(call.result is None for call in calls), 0),
            claims.equal("status at the end", numbers["relight"]["status"], "completed"),
        ]
    )


def change_mind(telling: Telling) -> None:
    """The files go back to before the edit, and forward again."""
    stage, screen = telling.stage, telling.screen
    directory = stage.shop(RUN)
    held = look_through(telling.rl, RUN, directory)
    went = go_back_and_forth(telling.rl, RUN, directory, telling.laid_out)
    telling.numbers["files"] = msgspec.to_builtins(went) | {"snapshots": held.snapshots, "damaged": held.damaged}
    screen.part("Changed your mind?", f"relight rewind {RUN}@{went.checkpoint} --files; relight undo {RUN}")
    telling.claims.equal("snapshots of the agent's files that are not whole", held.damaged, 0)
    kept = _claim_byte_for_byte(telling, went)
    failed = f"{went.tests_failed_there} tests fail again"
    screen.line(f"cart.py is back at @{went.checkpoint} in {went.back_ms:.0f} ms, byte for byte: {failed}")
    screen.line(f"{NOTES}, which you wrote meanwhile and no snapshot held, is left alone")
    passed = f"{went.tests_passed_again} tests pass"
    screen.verdict(f"forward again in {went.forth_ms:.0f} ms, byte for byte: {passed}", "✓" if kept else "✗")
    screen.pause(5)


def _claim_byte_for_byte(telling: Telling, went: GoneBack) -> bool:
    claims, counted = telling.claims, telling.numbers["relight"]
    return all(
        [
            claims.equal("files that differ after the rewind", went.differ_after_rewind, []),
            claims.equal("files that differ after the undo", went.differ_after_undo, []),
            claims.at_least("tests that fail while the files are back", went.tests_failed_there, 1),
            claims.equal("tests that pass after the undo", went.tests_passed_again, counted["tests"]),
            claims.equal("the user's own file was left alone", went.notes_kept, True),
            claims.equal("a rewind of the files left the conversation alone", went.conversation_kept, True),
        ]
    )


def flip_a_bit(telling: Telling) -> None:
    """One bit of a copy of the store is flipped."""
    stage, screen, claims = telling.stage, telling.screen, telling.claims
    screen.part("A flipped bit in the newest step:", "relight verify demo")
    found = damage_copy(stage.store, stage.root / "damaged.db", RUN)
    seq, whole = found.flipped_seq, f"{RUN}@{found.flipped_seq - 1}"
    telling.numbers["damage"] = msgspec.to_builtins(found)
    kept = all(
        [
            claims.equal("steps that verify names after the flip", found.named, [seq]),
            claims.equal("the broken step is refused", found.refused, True),
            claims.equal("the checkpoint offered instead", found.offered, whole),
            claims.equal("the offered checkpoint loads", found.offered_loads, True),
            claims.equal("problems in the store itself", len(telling.rl.verify().problems), 0),
        ]
    )
    screen.line(f"in a copy of the store, bit {found.bit} of byte {found.byte:,}")
    named = ", ".join(f"@{one}" for one in found.named) or "nothing"
    offered = (found.offered or "nothing").removeprefix(RUN)
    screen.verdict(f"{named} fails its digest and is refused; {offered} is whole and offered", "✓" if kept else "✗")
    screen.pause(4)


def sum_up(telling: Telling) -> None:
    """The numbers in one line."""
    screen, numbers = telling.screen, telling.numbers
    saves = saves_us(telling.stage, RUN)
    telling.claims.equal("saves timed in the agent's process", len(saves), numbers["relight"]["steps"])
    slowest = max(saves, default=0) / 1000
    numbers["relight"] |= {"saves": len(saves), "slowest_save_ms": slowest}
    counted = numbers["relight"]
    numbers["seconds"] = round(time.monotonic() - telling.begun, 3)
    left = (
        f"died {telling.kills[RUN]}  repeated {counted['model_calls_repeated']}  mails {counted['mails']}"
        f"  saves {counted['saves']}, slowest {slowest:.1f} ms"
    )
    screen.put()
    screen.right(left, f"in {numbers['seconds']:.1f} s")


def opening(stage: Stage, screen: Screen) -> None:
    """The first lines."""
    where = f"kept in {stage.root}" if stage.keep else "in a temporary directory (removed at the end; --keep keeps it)"
    screen.opening(
        [Span("relight demo", "bold"), ": an agent fixes a bug, and we kill it.   no key, no network"],
        [Span(f"store and files: {where}", "dim")],
    )


PARTS: Final[tuple[Callable[[Telling], None], ...]] = (
    start_agent,
    kill_agent,
    start_again,
    go_on,
    change_mind,
    flip_a_bit,
    sum_up,
)
