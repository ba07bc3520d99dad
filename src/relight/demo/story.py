"""The demo in parts: an agent starts and is killed, a plain loop starts over, relight resumes, rewinds, finds damage.

Each part acts, counts and claims; PARTS is the order.
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
from relight.demo.going_back import NOTES, GoneBack, go_back_and_forth, read_snapshots
from relight.demo.screen import Screen
from relight.demo.stage import Player, Stage, wait_until

RUN: Final = "demo"
"""the run with relight, and the name of its session"""
PLAIN: Final = "plain"
THINK_SECONDS: Final = 0.6
_TIMES: Final = {1: "once", 2: "twice"}


class Run:
    """State shared by the parts of one demo."""

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

    def kill(self, name: str, player: Player) -> None:
        """Kill with SIGKILL; counted if the signal ended it."""
        self.kills[name] += player.kill()


def play(stage: Stage, screen: Screen) -> tuple[dict[str, Any], Claims]:
    """Play the demo; returns its numbers and claims."""
    stage.lay_out(RUN)
    stage.lay_out(PLAIN)
    stage.start_world(think_seconds=THINK_SECONDS if screen.paced else 0.0, hasty=PLAIN, slow=f"{RUN},{PLAIN}")
    with relight.open(stage.store) as rl:
        run = Run(stage, screen, rl)
        for part in PARTS:
            part(run)
    return run.numbers, run.claims


def start_agent(run: Run) -> None:
    """Run the agent until its mail has arrived but not the receipt."""
    stage, screen = run.stage, run.screen
    agent = run.agent = stage.start_agent(RUN)
    screen.part("The agent starts", f"pid {agent.pid}; each line is read from its journal")
    run.follower.until(lambda: mails(stage, RUN) > 0, agent, "sending its mail")
    screen.pause(4)


def kill_agent(run: Run) -> None:
    """Kill the agent while it sends the mail."""
    stage, screen, claims = run.stage, run.screen, run.claims
    screen.part(f"kill -9 {run.agent.pid}, in the middle of sending the mail")
    run.kill(RUN, run.agent)
    run.follower.poll()
    sent = mails(stage, RUN)
    run.numbers["at_kill"] = {"mails": sent, "steps": run.follower.seq}
    claims.equal("agents killed with signal 9", run.kills[RUN], 1)
    claims.equal("mails sent when the agent was killed", sent, 1)
    screen.line("the process is gone; it never learned that the mail went out")
    screen.line(f"mails sent so far, counted outside: {sent}")
    screen.pause(5)


def start_again(run: Run) -> None:
    """Kill a loop without relight at the same point, and start it again."""
    stage, screen, claims = run.stage, run.screen, run.claims
    screen.part("What most loops do now: start again", "a plain loop, same script, same kill")
    # The loss is played before the gain, so that the numbers of part 4 have something to be compared with.
    first = stage.start_agent(PLAIN, durable=False)
    wait_until(lambda: mails(stage, PLAIN) > 0, first, "sending its mail")
    run.kill(PLAIN, first)
    stage.start_agent(PLAIN, durable=False).wait_end()
    counted = count(stage, PLAIN)
    run.numbers["plain"] = msgspec.to_builtins(counted) | {"kills": run.kills[PLAIN]}
    claims.equal("mails sent by the plain loop", counted.mails, 2)
    claims.equal("edits made by the plain loop", counted.edits, 2)
    claims.at_least("model calls that the plain loop repeated", counted.model_calls_repeated, 1)
    again = f"{counted.model_calls_repeated} model calls again"
    edited = f"cart.py edited {_TIMES.get(counted.edits, f'{counted.edits} times')}"
    screen.verdict(f"{again}, {edited}, mails sent: {counted.mails}", "✗")
    screen.pause(5)


def resume(run: Run) -> None:
    """Start the same program with relight again."""
    stage, screen, follower = run.stage, run.screen, run.follower
    plan = run.rl.can_resume(RUN)
    doubtful = [call.name for call in plan.in_doubt]
    before = list(follower.events)
    agent = stage.start_agent(RUN)
    screen.part("With relight: start the same program again", f"pid {agent.pid}")
    screen.line(f"conversation  {len(before)} steps, {plan.message_count} messages, all there")
    screen.line(f"calls         {', '.join(doubtful)} is in doubt, so it is not run again;")
    screen.line(f'              the model is told "{(plan.told or "").partition(":")[0]}", and looks')
    follower.until(agent.ended, agent, "its end")
    counted = count(stage, RUN)
    run.numbers["relight"] = msgspec.to_builtins(counted) | {
        "kills": run.kills[RUN],
        "in_doubt": doubtful,
        "steps": follower.seq,
    }
    holds = _claim_nothing_lost_or_repeated(run, before, counted)
    done = f"model calls repeated: {counted.model_calls_repeated}    mails sent: {counted.mails}"
    screen.verdict(done, "✓" if holds else "✗")
    screen.pause(6)


def _claim_nothing_lost_or_repeated(run: Run, before: list[Any], counted: Count) -> bool:
    claims, follower, numbers = run.claims, run.follower, run.numbers
    events = list(run.rl.tail(RUN))
    # A step counts as lost if it was read from the store before the kill and is not there, unchanged, now.
    lost = sum(one not in events for one in before)
    numbers["relight"] |= {"steps_lost": lost, "status": run.rl.get(RUN).status}
    calls = run.rl.load(RUN).calls
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


def change_mind(run: Run) -> None:
    """Rewind the files to before the edit, and undo that."""
    stage, screen = run.stage, run.screen
    directory = stage.shop(RUN)
    held = read_snapshots(run.rl, RUN, directory)
    went = go_back_and_forth(run.rl, RUN, directory, run.laid_out)
    run.numbers["files"] = msgspec.to_builtins(went) | {"snapshots": held.snapshots, "damaged": held.damaged}
    screen.part("Changed your mind?", f"relight rewind {RUN}@{went.checkpoint} --files; relight undo {RUN}")
    run.claims.equal("snapshots of the agent's files that are not whole", held.damaged, 0)
    holds = _claim_byte_for_byte(run, went)
    failed = f"{went.tests_failed_there} tests fail again"
    screen.line(f"cart.py is back at @{went.checkpoint} in {went.back_ms:.0f} ms, byte for byte: {failed}")
    screen.line(f"{NOTES}, which you wrote meanwhile and no snapshot held, is left alone")
    passed = f"{went.tests_passed_again} tests pass"
    screen.verdict(f"forward again in {went.forth_ms:.0f} ms, byte for byte: {passed}", "✓" if holds else "✗")
    screen.pause(5)


def _claim_byte_for_byte(run: Run, went: GoneBack) -> bool:
    claims, counted = run.claims, run.numbers["relight"]
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


def flip_a_bit(run: Run) -> None:
    """Flip one bit of a copy of the store, and verify it."""
    stage, screen, claims = run.stage, run.screen, run.claims
    screen.part("A flipped bit in the newest step:", "relight verify demo")
    found = damage_copy(stage.store, stage.root / "damaged.db", RUN)
    seq, whole = found.flipped_seq, f"{RUN}@{found.flipped_seq - 1}"
    run.numbers["damage"] = msgspec.to_builtins(found)
    holds = all(
        [
            claims.equal("steps that verify names after the flip", found.named, [seq]),
            claims.equal("the broken step is refused", found.refused, True),
            claims.equal("the checkpoint offered instead", found.offered, whole),
            claims.equal("the offered checkpoint loads", found.offered_loads, True),
            claims.equal("problems in the store itself", len(run.rl.verify().problems), 0),
        ]
    )
    screen.line(f"in a copy of the store, bit {found.bit} of byte {found.byte:,}")
    named = ", ".join(f"@{one}" for one in found.named) or "nothing"
    offered = (found.offered or "nothing").removeprefix(RUN)
    screen.verdict(f"{named} fails its digest and is refused; {offered} is intact and offered", "✓" if holds else "✗")
    screen.pause(4)


def sum_up(run: Run) -> None:
    """Print the totals in one line."""
    screen, numbers = run.screen, run.numbers
    saves = saves_us(run.stage, RUN)
    run.claims.equal("saves timed in the agent's process", len(saves), numbers["relight"]["steps"])
    slowest = max(saves, default=0) / 1000
    numbers["relight"] |= {"saves": len(saves), "slowest_save_ms": slowest}
    counted = numbers["relight"]
    numbers["seconds"] = round(time.monotonic() - run.begun, 3)
    left = (
        f"died {run.kills[RUN]}  repeated {counted['model_calls_repeated']}  mails {counted['mails']}"
        f"  saves {counted['saves']}, slowest {slowest:.1f} ms"
    )
    screen.put()
    screen.right(left, f"in {numbers['seconds']:.1f} s")


def opening(stage: Stage, screen: Screen) -> None:
    """Print the first lines: what this is, and where its files are."""
    where = f"kept in {stage.root}" if stage.keep else "in a temporary directory (removed at the end; --keep keeps it)"
    screen.opening(
        [Span("relight demo", "bold"), ": an agent fixes a bug, and we kill it.   no key, no network"],
        [Span(f"store and files: {where}", "dim")],
    )


PARTS: Final[tuple[Callable[[Run], None], ...]] = (
    start_agent,
    kill_agent,
    start_again,
    resume,
    change_mind,
    flip_a_bit,
    sum_up,
)
