"""A coding agent under `relight run`: it works as alone, and all it said is in the journal."""

from __future__ import annotations

from tests.integration.processes.conftest import Open


def test_an_agent_runs_to_its_end_as_it_would_alone(harness: Open) -> None:
    s = harness(
        [
            {"text": "first", "calls": [{"shell": "echo one > a.txt"}]},
            {"calls": [{"shell": "cat a.txt"}]},
            {"text": "fin"},
        ]
    )
    done = s.run("write a file")
    assert done.returncode == 0, done.stderr
    assert '"result": "fin"' in done.stdout
    assert (s.work / "a.txt").read_text() == "one\n"
    info = s.known()
    assert (info.status, info.attempt, info.said) == ("completed", 1, "fin")
    s.assert_whole("write a file", "first", "one")
    assert not s.marked()
    assert s.relight("verify").returncode == 0
