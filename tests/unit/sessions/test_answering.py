"""What a person says to a session is read by somebody, or refused with who has to answer instead."""

from __future__ import annotations

from pathlib import Path

import pytest

import relight
from relight.errors import Conflict, UsageError, Waiting
from relight.journal.effects.answers import answered_by, no_words_for
from tests.support.shell import Shell
from tests.support.simulation import Simulation
from tests.support.waiting_sessions import in_doubt, interrupted


def test_words_are_refused_where_calls_wait_to_be_settled(world: Simulation) -> None:
    """W-A2, at every entry point: the library refuses."""
    rl = world.start()
    session = in_doubt(rl)
    before = rl.sessions.get(session).seq
    with pytest.raises(Conflict, match="about 1 calls whose outcome is unknown"):
        rl.runs.send(session, "yes it went out")
    assert (rl.sessions.get(session).seq, rl.sessions.get(session).status) == (before, "waiting")
    rl.runs.settle(session, "c1", retry=True)
    assert rl.sessions.get(session).status == "queued"
    rl.runs.send(session, "go on")


def test_an_empty_answer_is_refused_and_the_session_waits_on(world: Simulation) -> None:
    rl = world.start()
    with pytest.raises(Waiting), rl.session("a") as s:
        s.ask("Who is on call?")
    for empty in ("", " \n"):
        with pytest.raises(UsageError, match="the answer is empty"):
            rl.runs.send("a", empty)
    assert rl.sessions.get("a").status == "waiting"
    rl.runs.send("a", "Ada")
    with rl.session("a") as s:
        assert s.ask("Who is on call?") == "Ada"


def test_words_are_refused_where_a_framework_reads_nothing_but_its_own(world: Simulation) -> None:
    """W-A3."""
    rl = world.start()
    session = interrupted(rl)
    info = rl.sessions.get(session)
    assert info.attention is not None and "Command(resume=...)" in info.attention.cure
    with pytest.raises(Conflict, match="langgraph stores its own conversation"):
        rl.runs.send(session, "no")
    assert rl.sessions.get(session).seq == info.seq


def test_who_answers_what() -> None:
    reported = [answered_by(*who, approval=approval, has_command=False, open_calls=calls) for who, approval, calls in (
        (("mine", "delete them?"), False, 0), (("mine", "approve Bash: ls [c 1]"), True, 0),
        (("mine", None), False, 2), (("mine", None), False, 0), (("langgraph", "x?"), False, 0),
    )]  # fmt: skip
    assert reported == ["words", "approval", "settling", "program", "program"]
    assert no_words_for("mine", "terminated", None, has_command=False, open_calls=2) is None
    assert no_words_for("langgraph", "waiting", "x?", has_command=True, open_calls=0) is None


def test_the_command_that_is_offered_for_a_call_in_doubt_works_as_printed(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "p.db", tmp_path)
    with relight.open(shell.store) as rl:
        session = in_doubt(rl)
        info = rl.sessions.get(session)
    assert info.attention is not None
    ran = shell.run(*info.attention.cure.split()[1:])
    assert ran.returncode == 0 and '{"to": "ada"}' in ran.stdout
    assert shell.run("send", "in-doubt", "yes").returncode == 4
    assert shell.run("settle", "in-doubt", "nothing").returncode != 0
