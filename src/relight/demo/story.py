"""The demo in parts: an agent starts and is killed, a plain loop starts over, relight resumes, rewinds, finds damage.

Each part acts, counts and claims. A claim compares what was counted with what must be; a false one fails the demo.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import relight
from relight.cli.render.steps import finished, open_rows
from relight.demo import shop
from relight.demo.screen import Screen
from relight.demo.stage import Agent, Stage, wait_until
from relight.errors import Corrupt, NotFound
from relight.history.events import Event
from relight.history.narration import Narrator

RUN: Final = "demo"
"""the run with relight, and the name of its session"""
PLAIN: Final = "plain"
NOTES: Final = ("notes.md", b"to do: ask about taxes\n")
_BIT: Final = 3


class Play:
    """What the parts of one demo share: stage, screen, store, numbers and claims."""

    def __init__(self, stage: Stage, screen: Screen, rl: relight.Relight) -> None:
        self.stage, self.screen, self.rl = stage, screen, rl
        self.numbers: dict[str, Any] = {}
        self.claims: list[dict[str, Any]] = []
        self.events: list[Event] = []
        """every step read from the journal, oldest first"""
        self._narrator = Narrator("anthropic")

    def claim(self, text: str, counted: Any, expected: Any = True) -> bool:
        """Claim that something is exactly this."""
        self.claims.append({"text": text, "expected": expected, "counted": counted, "kept": counted == expected})
        return bool(counted == expected)

    def follow(self) -> None:
        """Print the steps that are new. A line is printed because its step is in the store."""
        seq = self.events[-1].seq if self.events else 0
        for event in self.rl.history.events(RUN, after=seq) if self.rl.sessions.find(RUN) is not None else ():
            self.events.append(event)
            lines = str(event.outcomes[0]["content"]).splitlines() if event.outcomes else []
            note = lines[0].partition(":")[0] if len(lines) == 1 else f"{len(lines)} lines"
            for row in finished(self._narrator.rows(event)):
                self.screen.step(row.seq, row.word, row.line, row.mark, note if event.outcomes else "")

    def follow_until(self, condition: Callable[[], object], agent: Agent, what: str) -> None:
        """Print steps until a condition holds, including those committed before it did."""

        def poll() -> object:
            over = condition()  # before the steps are read: a step committed before it held is printed too
            self.follow()
            return over

        wait_until(poll, agent, what)
        for row in open_rows(self._narrator, self.events[-1].seq, doubtful=False):
            self.screen.step(row.seq, row.word, row.text, row.mark)


def play(stage: Stage, screen: Screen, rl: relight.Relight) -> Play:
    """Play the demo; returns its numbers and claims."""
    run, begun = Play(stage, screen, rl), time.monotonic()
    _kill_in_the_middle(run)
    _start_over_without(run)
    _resume(run)
    _change_mind(run)
    _flip_a_bit(run)
    counted = run.numbers["relight"]
    saves = [one["us"] for one in stage.requests(RUN, "saved")]
    run.claim("saves timed in the agent's process", len(saves), counted["steps"])
    counted |= {"saves": len(saves), "slowest_save_ms": max(saves, default=0) / 1000}
    run.numbers["seconds"] = seconds = round(time.monotonic() - begun, 3)
    screen.put()
    screen.put(
        f"   died 1  repeated {counted['model_calls_repeated']}  mails {counted['mails']}  saves {len(saves)}, "
        f"slowest {counted['slowest_save_ms']:.1f} ms      in {seconds:.1f} s"
    )
    return run


def _kill_in_the_middle(run: Play) -> None:
    """Kill the agent when its mail has arrived, but not the receipt."""
    stage, screen = run.stage, run.screen
    stage.losing |= {RUN, PLAIN}
    agent = stage.start(RUN)
    screen.part("The agent starts", f"pid {agent.pid}; each line is read from its journal")
    run.follow_until(lambda: stage.requests(RUN, "mail"), agent, "sending its mail")
    screen.pause(4)
    screen.part(f"kill -9 {agent.pid}, in the middle of sending the mail")
    run.claim("the agent was killed with signal 9", agent.kill())
    run.follow()
    sent = len(stage.requests(RUN, "mail"))
    run.numbers["at_kill"] = {"mails": sent, "steps": run.events[-1].seq}
    run.claim("mails sent when the agent was killed", sent, 1)
    screen.put("   the process is gone; it never learned that the mail went out")
    screen.put(f"   mails sent so far, counted outside: {sent}")
    screen.pause(5)


def _start_over_without(run: Play) -> None:
    """Kill a loop without relight at the same point, and start it again: the loss is played before the gain."""
    stage, screen, think_seconds = run.stage, run.screen, run.stage.think_seconds
    screen.part("What most loops do now: start again", "a plain loop, same script, same kill")
    stage.think_seconds = 0.0
    agent = stage.start(PLAIN, durable=False)
    wait_until(lambda: stage.requests(PLAIN, "mail"), agent, "sending its mail")
    agent.kill()
    stage.start(PLAIN, durable=False).wait_end()
    stage.think_seconds = think_seconds
    run.numbers["plain"] = counted = stage.count(PLAIN)
    run.claim("mails sent by the plain loop", counted["mails"], 2)
    run.claim("edits made by the plain loop", counted["edits"], 2)
    again = f"{counted['model_calls_repeated']} model calls again"
    screen.verdict(f"{again}, cart.py edited {counted['edits']} times, mails sent: {counted['mails']}", False)
    screen.pause(5)


def _resume(run: Play) -> None:
    """Start the same program with relight again."""
    rl, screen, before = run.rl, run.screen, list(run.events)
    plan = rl.runs.plan(RUN)
    doubtful = [call.name for call in plan.in_doubt]
    agent = run.stage.start(RUN)
    screen.part("With relight: start the same program again", f"pid {agent.pid}")
    screen.put(f"   conversation  {len(before)} steps, {plan.message_count} messages, all there")
    screen.put(f"   calls         {', '.join(doubtful)} is in doubt, so it is not run again;")
    screen.put(f'                 the model is told "{(plan.told or "").partition(":")[0]}", and looks')
    run.follow_until(lambda: agent.wait(0), agent, "its end")
    counted = run.stage.count(RUN)
    # A step counts as lost if it was read from the store before the kill and is not there, unchanged, now.
    events, info = list(rl.history.events(RUN)), rl.sessions.get(RUN)
    lost = sum(one not in events for one in before)
    ended = {"in_doubt": doubtful, "steps": info.seq, "steps_lost": lost, "status": info.status}
    run.numbers["relight"] = {**counted, **ended}
    holds = [
        run.claim("calls in doubt after the kill", doubtful, ["send_mail"]),
        run.claim("steps lost", lost, 0),
        run.claim("steps without a gap", [one.seq for one in events] == list(range(1, info.seq + 1))),
        run.claim("model calls repeated with relight", counted["model_calls_repeated"], 0),
        run.claim("mails sent with relight", counted["mails"], 1),
        run.claim("edits made with relight", counted["edits"], 1),
        run.claim("tests that pass at the end", counted["tests_passed"], 6),
        run.claim("status at the end", info.status, "completed"),
    ]
    done = f"model calls repeated: {counted['model_calls_repeated']}    mails sent: {counted['mails']}"
    screen.verdict(done, all(holds))
    screen.pause(6)


def _change_mind(run: Play) -> None:
    """Rewind the files to before the edit and undo that; a file of the user's, in no snapshot, must survive both."""
    rl, screen, directory = run.rl, run.screen, run.stage.root / RUN
    messages, calls = rl.history.load(RUN).messages, rl.history.load(RUN).calls
    checkpoint = next(call.intent_seq or 0 for call in calls if call.name == "edit_file") - 1
    (directory / NOTES[0]).write_bytes(NOTES[1])
    after = shop.files(directory)
    back_ms = _timed(lambda: rl.history.rewind(f"{RUN}@{checkpoint}", conversation=False, files=True))
    there, (passed_there, tests) = shop.files(directory), shop.run_tests(directory)
    forth_ms = _timed(lambda: rl.history.undo(RUN))
    again, (passed_again, _) = shop.files(directory), shop.run_tests(directory)
    run.numbers["files"] = {"checkpoint": checkpoint, "back_ms": back_ms, "forth_ms": forth_ms}
    as_found = {"cart.py": shop.CART.encode(), "test_cart.py": shop.TESTS.encode(), NOTES[0]: NOTES[1]}
    holds = [
        run.claim("files that differ after the rewind", _differences(there, as_found), []),
        run.claim("files that differ after the undo", _differences(again, after), []),
        run.claim("tests that fail while the files are back", tests - passed_there, 3),
        run.claim("tests that pass after the undo", passed_again, 6),
        run.claim("a rewind of the files left the conversation alone", rl.history.load(RUN).messages == messages),
    ]
    screen.part("Changed your mind?", f"relight rewind {RUN}@{checkpoint} --files; relight undo {RUN}")
    failed = f"{tests - passed_there} tests fail again"
    screen.put(f"   cart.py is back at @{checkpoint} in {back_ms:.0f} ms, byte for byte: {failed}")
    screen.put(f"   {NOTES[0]}, which you wrote meanwhile and no snapshot held, is left alone")
    screen.verdict(f"forward again in {forth_ms:.0f} ms, byte for byte: {passed_again} tests pass", all(holds))
    screen.pause(5)


def _timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    with suppress(NotFound):  # a rewind that did nothing leaves nothing to undo; the claims report it
        act()
    return round((time.perf_counter() - begun) * 1000, 3)


def _differences(one: dict[str, bytes], two: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _flip_a_bit(run: Play) -> None:
    """Flip one bit of the newest step in a copy of the store, and verify the copy."""
    copy, screen = run.stage.root / "damaged.db", run.screen
    seq, byte = _damaged_copy(run.rl, run.stage, copy)
    with relight.open(copy) as rl:
        problems = rl.history.verify(RUN).problems
        offered = next((problem.offered for problem in problems if problem.offered), None)
        try:
            rl.history.load(RUN)
            refused = None
        except Corrupt as error:
            refused = error.seq
        loads = offered is not None and rl.history.load(offered).seq == seq - 1
    named = [problem.seq for problem in problems]
    run.numbers["damage"] = {"byte": byte, "bit": _BIT, "flipped_seq": seq, "offered": offered}
    holds = [
        run.claim("steps that verify names after the flip", named, [seq]),
        run.claim("the step that is refused", refused, seq),
        run.claim("the checkpoint offered instead", offered, f"{RUN}@{seq - 1}"),
        run.claim("the offered checkpoint loads", loads),
        run.claim("problems in the store itself", len(run.rl.history.verify().problems), 0),
    ]
    screen.part("A flipped bit in the newest step:", f"relight verify {RUN}")
    screen.put(f"   in a copy of the store, bit {_BIT} of byte {byte:,}")
    text = f"{', '.join(f'@{one}' for one in named) or 'nothing'} fails its digest and is refused"
    screen.verdict(f"{text}; {(offered or 'nothing').removeprefix(RUN)} is intact and offered", all(holds))
    screen.pause(4)


def _damaged_copy(rl: relight.Relight, stage: Stage, copy: Any) -> tuple[int, int]:
    """Copy the store and flip a bit in the middle of the newest step; returns its seq and the position in the file."""
    from relight.system.sqlite import WaitingConnection

    source = WaitingConnection(stage.store, busy_seconds=30)
    try:
        source.execute("VACUUM INTO ?", (str(copy),))
    finally:
        source.close()
    copy.chmod(0o600)
    shutil.copytree(f"{stage.store}.blobs", f"{copy}.blobs")
    info = rl.sessions.get(RUN)
    (step,) = rl.store.steps(info.id, after=info.seq - 1)
    content = bytearray(copy.read_bytes())
    position = content.index(step.body) + len(step.body) // 2
    content[position] ^= 1 << _BIT
    copy.write_bytes(content)
    return info.seq, position
