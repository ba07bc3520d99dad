"""A decision about a coding agent's call: for exactly its input, in its native session, used once, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import relight
from relight.errors import Conflict
from relight.history.loading import resolve
from relight.journal.effects.approvals import as_asked
from relight.ports.agent import Heard
from relight.sessions.opening import begin_attempt, recorder_for
from relight.sessions.recorder import Recorder
from relight.supervision.approvals import deadline_of, decide, decision_of
from relight.testing.clock import ManualClock
from relight.values.call import Intent, Outcome
from relight.values.options import RunOptions
from relight.values.policy import RunPolicy
from relight.values.status import StatusChange
from relight.values.step import Changes

PUSH = Heard(kind="tool_begins", call="c1", tool="Bash", arguments={"command": "git push"})
WITHIN = 100.0
NATIVE = "ses_1e5Qx9ZtLbV4mKp0RwYcTa8uGh"
"""an id that is redacted as what looks random"""


class Job:
    """A session of Claude Code with approvals, without its agent."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        (directory / "claude").write_text("#!/bin/sh\n")
        (directory / "claude").chmod(0o755)
        self.rl = relight.open(directory / "store" / "r.db", clock=self.clock)
        policy = RunPolicy(approve=("Bash",), approve_within=WITHIN)
        options = RunOptions(directory=str(directory), agent="claude", name="job", policy=policy)
        self.rl.runs.create([str(directory / "claude"), "-p", "do it"], options)

    def recorder(self) -> Recorder:
        context = self.rl._context
        recorder = recorder_for(context, resolve(context.store, "job"))
        begin_attempt(context, recorder, seconds=30)
        recorder.commit("status", Changes(status=StatusChange(status="working"), native=NATIVE))
        return recorder

    def hears(self, recorder: Recorder, heard: Heard = PUSH) -> tuple[Any, str] | None:
        return decision_of(recorder, heard, now_us=self.clock.now_us())

    def asks(self) -> str:
        """The agent asks and ends; the session waits."""
        recorder = self.recorder()
        said, question = self.hears(recorder) or ("", "")
        assert said == "wait" and "git push" in as_asked(question)
        wake_us = deadline_of(recorder.fold, question)
        change = StatusChange(status="waiting", reason="asks", question=question, wake_us=wake_us)
        recorder.commit("status", Changes(status=change), release=True)
        return question

    def decides(self, *, allow: bool) -> None:
        decide(self.rl._context, resolve(self.rl.store, "job"), allow=allow)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.rl.close()


def test_a_permission_is_for_that_input_and_one_call_whatever_its_id(job: Job) -> None:
    assert NATIVE not in job.rl._context.redactor().text(NATIVE)
    job.asks()
    job.decides(allow=True)
    recorder = job.recorder()
    for other in ({"command": "git push", "cwd": "/"}, {"command": "git push --force"}):
        assert job.hears(recorder, msgspec.structs.replace(PUSH, arguments=other)) != ("allow", "a person allowed it")
    again = msgspec.structs.replace(PUSH, call="c2")
    assert job.hears(recorder, again) == ("allow", "a person allowed it")
    assert (job.hears(recorder, again) or ("",))[0] == "wait", "one decision served two calls"


def test_within_a_tool_that_runs_calls_of_its_own_no_call_waits_and_none_runs_unasked(job: Job) -> None:
    recorder = job.recorder()
    intent = Intent(id="c0", name="invoke_agent", effect="once", hooked=True)
    recorder.commit("intent", Changes(intents=[intent]))
    now_us = job.clock.now_us()
    assert (decision_of(recorder, PUSH, now_us=now_us, nests=("invoke_agent",)) or ("",))[0] == "deny"
    recorder.commit("result", Changes(outcomes=[Outcome(id="c0", status="ok", content="done")]))
    assert (decision_of(recorder, PUSH, now_us=now_us, nests=("invoke_agent",)) or ("",))[0] == "wait"


def test_a_question_that_nobody_answered_in_time_is_denied_and_cannot_be_allowed_any_more(job: Job) -> None:
    job.asks()
    job.clock.advance(WITHIN)
    with pytest.raises(Conflict, match="counts as denied"):
        job.decides(allow=True)
    recorder = job.recorder()
    said, why = job.hears(recorder) or ("", "")
    assert said == "deny" and "no one approved it in time" in why
    assert (job.hears(recorder) or ("",))[0] == "wait", "asked once more, it is a new question"


def test_a_permission_that_was_not_used_in_time_is_denied(job: Job) -> None:
    job.asks()
    job.clock.advance(WITHIN - 1)
    job.decides(allow=True)
    job.clock.advance(WITHIN)
    said, why = job.hears(job.recorder()) or ("", "")
    assert said == "deny" and "not used in time" in why


def test_asking_again_after_a_restart_does_not_prolong_the_time(job: Job) -> None:
    job.asks()
    first = resolve(job.rl.store, "job").whole_head().wake_us
    job.clock.advance(WITHIN / 2)
    recorder = job.recorder()
    said, question = job.hears(recorder, msgspec.structs.replace(PUSH, call="c2")) or ("", "")
    assert (said, deadline_of(recorder.fold, question)) == ("wait", first)


def test_a_permission_holds_in_the_native_session_that_asked(job: Job) -> None:
    """A fork, a rewind and another agent have another one: none of them can use it once more."""
    job.asks()
    job.decides(allow=True)
    recorder = job.recorder()
    recorder.commit("mark", Changes(native="n2"))
    assert (job.hears(recorder) or ("",))[0] == "wait"


def test_a_call_whose_whole_input_is_not_known_is_denied(job: Job) -> None:
    said, why = job.hears(job.recorder(), msgspec.structs.replace(PUSH, partial=True)) or ("", "")
    assert said == "deny" and "not known" in why
