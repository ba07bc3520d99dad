"""`crash_everywhere`: an agent is killed wherever it commits, restarted, and has to come to the same end.

    undisturbed, twice   ->  fault points passed, and the end to compare with
    for each pass        ->  a fresh store; killed there; restarted; its end compared

An outcome that a death leaves unknown is no difference: the model is told so, or the agent stops for a person. The
effect itself may then have happened once, or not at all; never more often than in the undisturbed run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import msgspec

from relight.ports import faults
from relight.testing.agent_process import Life, live
from relight.testing.effects import Effects
from relight.testing.scripted_model import ScriptedModel
from relight.values.call import OUTCOME_UNKNOWN

_HINT: Final = (
    "hint: what an agent does outside of its tools and of s.once happens again in each life; keep what it has to"
    " remember in s.state or in its messages; what may run again under one key is counted by effects.add(TEXT, key=KEY)"
)
_NO_SESSION: Final = (
    "the agent began no session in the default store, so that nothing of it can be compared\n"
    "hint: let it open its sessions with relight.session(NAME), without store= and without a handle of the test"
)
_SHOWN: Final = 300
_MEMORY: Final = "/dev/shm"
"""a file system in memory, on Linux"""


class CrashReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried. Every death ended as the undisturbed run did; `crash_everywhere` raises otherwise."""

    possible: int
    """deaths that there are: passes of fault points in the undisturbed run"""
    deaths: int
    """deaths that were tried"""
    unknown: int
    """outcomes of tool calls that were told to the model as unknown"""
    in_doubt: int
    """ends at which a person has to say whether an effect of `s.once` happened"""
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.deaths} deaths of {self.possible} possible, each with the same end; {self.unknown} outcomes told as"
            f" unknown, {self.in_doubt} ends in doubt; {self.seconds:.1f} s"
        )


class _End(msgspec.Struct, kw_only=True):
    """What is compared."""

    returned: Any
    raised: str
    text: str
    """the traceback, and what was printed last"""
    sessions: dict[str, dict[str, Any]]
    effects: dict[str, int]
    unknown: int = 0


def crash_everywhere(
    agent: Callable[[], Any],
    *,
    effects: Effects | None = None,
    max_deaths: int = 200,
    seconds: float = 60.0,
    life_seconds: float = 20.0,
    ignore: Sequence[str] = (),
) -> CrashReport:
    """Kill the agent at every fault point, each time it is passed, restart it, and compare the ends.

    `agent` is a function or coroutine function without arguments that runs a whole agent in the default store. Each
    life is a forked process with a store of its own on disk; a death is SIGKILL. What is compared: messages, state,
    result and status of every session, what the agent returned or raised, and `effects`. AssertionError tells the first
    difference. `ignore` are places that differ by themselves, as the difference names them: `fix.state.began_at`.

    No more than `max_deaths` are tried, evenly spread, and none but the first begins after `seconds`; the report has
    both numbers.
    """
    began = time.monotonic()
    # A killed process loses nothing that it wrote, in memory as on a disk; only a power cut needs the disk.
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="relight-crashes-", dir=memory) as directory:
        _warm_up(Path(directory) / "warm-up.db")
        trials = _Trials(agent, effects, Path(directory), life_seconds, tuple(ignore))
        wanted, passes = trials.undisturbed()
        plan = [(point, nth) for point in faults.POINTS for nth in range(1, passes.get(point, 0) + 1)]
        deaths = unknown = in_doubt = 0
        for point, nth in _spread(plan, max_deaths):
            if deaths and time.monotonic() - began > seconds:
                break
            end = trials.after_death(point, nth)
            deaths += 1
            difference = trials.difference(wanted, end)
            if difference is not None:
                raise AssertionError(
                    f"killed at {point}, pass {nth} ({faults.POINTS[point]}), and restarted, the agent ended"
                    f" differently:\n  {difference}\n{deaths} of {len(plan)} deaths tried\n{_HINT}"
                )
            unknown += end.unknown
            in_doubt += end.raised == "InDoubt"
        took = time.monotonic() - began
        return CrashReport(possible=len(plan), deaths=deaths, unknown=unknown, in_doubt=in_doubt, seconds=took)


def _spread(plan: list[tuple[str, int]], bound: int) -> list[tuple[str, int]]:
    """At most so many of the plan, evenly spread over it."""
    return plan if len(plan) <= bound else [plan[i * len(plan) // bound] for i in range(bound)]


def _warm_up(path: Path) -> None:
    """Import and compile here what every life would otherwise import and compile again."""
    from relight.wiring import open as open_store

    model = ScriptedModel([{"look": {}}, "."])
    with open_store(path) as rl, rl.session("warm-up") as s:
        s.run(model, tools={"look": lambda: "."}, prompt=".")


class _Trials:
    """Runs of one agent, each with a store of its own."""

    def __init__(
        self,
        agent: Callable[[], Any],
        effects: Effects | None,
        directory: Path,
        life_seconds: float,
        ignore: tuple[str, ...],
    ) -> None:
        self._agent, self._effects, self._directory = agent, effects, directory
        self._life_seconds, self._ignore = life_seconds, ignore
        self._number = 0

    def undisturbed(self) -> tuple[_End, dict[str, int]]:
        """The end without a death, and how often each fault point is passed. Run twice: what differs between two such
        runs is no effect of a death."""
        ends = []
        for _ in range(2):
            url = self._begin()
            life = self._live(url)
            if life.end != "returned" and life.error != "Waiting":
                raise AssertionError(f"the agent fails without any death: {life.error or life.end}\n{life.text}")
            ends.append(self._end(url, life))
        difference = self.difference(*ends)
        if difference is not None:
            raise AssertionError(
                f"two runs without any death differ, so that ends cannot be compared:\n  {difference}\n"
                "hint: let the test provide times, random numbers and names; or leave the place out with ignore=[...]"
            )
        if not ends[0].sessions:
            raise AssertionError(_NO_SESSION)
        return ends[0], life.passes

    def after_death(self, point: str, nth: int) -> _End:
        """The end of an agent that was killed there, and restarted."""
        url = self._begin()
        life = self._live(url, fault=f"{point}:{nth}:kill")
        if life.end == "killed":
            life = self._live(url)
        return self._end(url, life)

    def difference(self, wanted: _End, end: _End) -> str | None:
        """The first difference between two ends that no ignored place and no unknown outcome explains."""
        if end.raised == "InDoubt":
            found = iter(_more_often(wanted.effects, end.effects, allowed=sum(wanted.effects.values())))
        else:
            found = self._differences(wanted, end)
        return next(found, None)

    def _differences(self, wanted: _End, end: _End) -> Iterator[str]:
        if end.raised != wanted.raised:
            how = [name or "no exception" for name in (end.raised, wanted.raised)]
            yield f"it ended with {how[0]}, undisturbed with {how[1]}\n{indent(end.text, '  | ')}"
        unknown: list[str] = []
        pairs = [("returned", wanted.returned, end.returned), ("", wanted.sessions, end.sessions)]
        for name, before, after in pairs:
            for path, one, other in _compared(name, before, after, unknown):
                if not any(path == ignored or path.startswith(f"{ignored}.") for ignored in self._ignore):
                    yield f"{path}: {_shown(other)}, undisturbed {_shown(one)}"
        end.unknown = len(unknown)
        yield from _more_often(wanted.effects, end.effects, allowed=len(unknown))

    def _begin(self) -> str:
        """A fresh directory with an empty store; its address."""
        from relight.wiring import open as open_store

        self._number += 1
        shutil.rmtree(self._directory / str(self._number - 1), ignore_errors=True)
        room = self._directory / str(self._number)
        room.mkdir()
        if self._effects is not None:
            self._effects.clear()
        made = self._directory / "empty.db"
        if not made.exists():
            open_store(made).close()
        return str(shutil.copy(made, room / "relight.db"))

    def _live(self, url: str, fault: str = "") -> Life:
        life = live(self._agent, url, Path(url).parent, fault=fault, seconds=self._life_seconds)
        if life.end == "timed out":
            at = f" (armed: {fault})" if fault else ""
            raise AssertionError(f"a life of the agent did not end in {self._life_seconds:.0f} s{at}\n{life.text}")
        return life

    def _end(self, url: str, life: Life) -> _End:
        from relight.wiring import open as open_store

        sessions: dict[str, dict[str, Any]] = {}
        with open_store(url) as rl:
            for info in sorted(rl.sessions.list(), key=lambda info: info.created_at):
                loaded = rl.history.load(info.id)
                seen = {"status": info.status, "state": loaded.state, "result": loaded.result}
                sessions[info.name or f"unnamed {len(sessions)}"] = {"messages": loaded.messages, **seen}
        effects = dict(self._effects.counts()) if self._effects is not None else {}
        return _End(returned=life.value, raised=life.error, text=life.text, sessions=sessions, effects=effects)


def _more_often(wanted: dict[str, int], seen: dict[str, int], *, allowed: int) -> Iterator[str]:
    """Effects that happened too often; or too rarely, if more are missing than outcomes are unknown."""
    more = Counter(seen) - Counter(wanted)
    less = Counter(wanted) - Counter(seen)
    for what in more:
        yield f"effects: {what!r} happened {seen[what]} times, undisturbed {wanted.get(what, 0)} times"
    if less.total() > allowed:
        what = next(iter(less))
        yield f"effects: {what!r} happened {seen.get(what, 0)} times, undisturbed {wanted[what]} times"


def _compared(path: str, one: Any, other: Any, unknown: list[str]) -> Iterator[tuple[str, Any, Any]]:
    """(path, undisturbed, found) of each difference. An outcome told as unknown is noted and is no difference."""
    if isinstance(one, dict) and isinstance(other, dict):
        if any(_tells_unknown(value) for value in other.values()):
            unknown.append(path)
            return
        for key in dict.fromkeys([*one, *other]):
            name = f"{path}.{key}" if path else str(key)
            yield from _compared(name, one.get(key, _ABSENT), other.get(key, _ABSENT), unknown)
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            before, after = (values[index] if index < len(values) else _ABSENT for values in (one, other))
            yield from _compared(f"{path}.{index}", before, after, unknown)
    elif one != other:
        yield path, one, other


_ABSENT: Final = object()


def _tells_unknown(value: Any) -> bool:
    blocks = value if isinstance(value, list) else [value]
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return any(isinstance(text, str) and text.startswith(OUTCOME_UNKNOWN) for text in texts)


def _shown(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
