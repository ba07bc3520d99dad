"""A session goes where it is needed: another home, another directory, a fork, back in time, without its transcript."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import relight
from tests.integration.processes.conftest import Open
from tests.support.fake_model import texts
from tests.support.program_harness import ProgramHarness

ONE = {"text": "first", "calls": [{"shell": "echo one > a.txt"}]}
TWO = {"text": "second", "calls": [{"shell": "echo two > a.txt; echo new > b.txt"}]}


def reported(s: ProgramHarness) -> str:
    return "\n".join(texts(s.last()))


def resumed(s: ProgramHarness, *words: str, **more: str) -> None:
    done = s.relight("resume", *words, "--yes", **more)
    assert done.returncode == 0, done.stderr


def test_it_resumes_in_a_blank_home(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    blank = s.base / "blank"
    blank.mkdir()
    resumed(s, "job", "and now?", HOME=str(blank))
    s.assert_whole("do the task", "first", "fin", "and now?")
    assert s.known().said == "more"
    assert len(s.transcripts(blank)) == 1


def test_it_resumes_after_its_directory_was_moved(harness: Open) -> None:
    """Another directory is another project to the agent: its transcript is written there from the journal."""
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    other = s.base / "other"
    done = s.relight("fork", "job", "go on there", "--name", "there", "--workspace", str(other))
    assert done.returncode == 0, done.stderr
    resumed(s, "there")
    s.assert_whole("do the task", "first", "fin", "go on there")
    assert (other / "a.txt").read_text() == "one\n"
    keys = {path.parent.name for path in s.transcripts()}
    assert len(keys) == 2


def test_a_fork_begins_where_its_parent_stood_and_leaves_it_alone(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "another way"}])
    assert s.run().returncode == 0
    [mine] = s.transcripts()
    before = mine.read_bytes()
    done = s.relight("fork", "job", "try it differently", "--name", "branch")
    assert done.returncode == 0, done.stderr
    resumed(s, "branch")
    s.assert_whole("do the task", "first", "fin", "try it differently")
    assert mine.read_bytes() == before
    assert s.known("branch").said == "another way"
    assert s.known("job").said == "fin"


def test_rewound_it_knows_nothing_of_what_came_later_and_its_files_are_as_they_were(harness: Open) -> None:
    s = harness([ONE, [TWO, {"text": "another way"}], {"text": "fin"}])
    assert s.run().returncode == 0
    assert (s.work / "b.txt").exists()
    back = min(step.seq for step in s.steps() if "second" in str(step) or "two > a.txt" in str(step))
    rewound = s.relight("rewind", f"job@{back - 1}", "--both", "--force")
    assert rewound.returncode == 0, rewound.stderr
    assert (s.work / "a.txt").read_text() == "one\n"
    assert not (s.work / "b.txt").exists()
    resumed(s, "job", "differently, please")
    s.assert_whole("do the task", "first", "differently, please")
    assert "second" not in reported(s)


@pytest.mark.parametrize("verb", ["rewind", "fork"])
def test_a_command_that_ran_on_another_branch_gets_its_result_there_and_is_not_run_again(
    harness: Open, verb: str
) -> None:
    paid = {"text": "paying", "calls": [{"shell": "echo ran >> paid.txt; echo receipt-77"}]}
    s = harness([paid, {"text": "fin"}, {"text": "so be it"}])
    assert s.run().returncode == 0
    with relight.open(str(s.store)) as rl:
        [pays] = rl.history.load("job").calls
        planned = rl.history.planned_calls(f"job@{pays.asked_seq}", after="rewind" if verb == "rewind" else "fork")
    assert [(one.id, one.action) for one in planned] == [(pays.id, "carry")]
    words = ["--conversation"] if verb == "rewind" else ["--name", "job2"]
    done = s.relight(verb, f"job@{pays.asked_seq}", *words)
    assert done.returncode == 0, done.stderr
    resumed(s, "job" if verb == "rewind" else "job2", "and now?")
    assert (s.work / "paid.txt").read_text() == "ran\n"
    assert "receipt-77" in reported(s) and "outcome unknown" not in reported(s)
    assert "fin" not in reported(s).split("and now?")[0].split("receipt-77")[1]


def test_a_transcript_that_is_gone_is_written_again_from_the_journal(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    shutil.rmtree(s.home / ".claude")
    resumed(s, "job", "and now?")
    s.assert_whole("do the task", "first", "fin", "and now?")
    assert s.known().said == "more"


def test_a_torn_transcript_keeps_its_whole_lines_and_its_bytes_are_kept_aside(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    [path] = s.transcripts()
    torn = b'{"parentUuid":"x","type":"assistant","message":{"ro'
    with path.open("ab") as file:
        file.write(torn)
    whole = path.read_bytes()
    resumed(s, "job", "and now?")
    s.assert_whole("do the task", "first", "fin", "and now?")
    kept = [one.read_bytes() for one in s.store.parent.rglob("torn-*.jsonl")]
    assert kept == [whole]


@pytest.mark.parametrize("lines", [1, 3])
def test_lines_that_the_agent_lost_are_given_back_to_it(harness: Open, lines: int) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    [path] = s.transcripts()
    kept = [line for line in path.read_text().splitlines(keepends=True) if '"uuid"' in line]
    path.write_text("".join(kept[:-lines]))
    resumed(s, "job", "and now?")
    s.assert_whole("do the task", "first", "fin", "and now?")


def test_what_the_agent_did_without_us_is_taken_in(harness: Open) -> None:
    import subprocess

    s = harness([ONE, {"text": "fin"}, {"text": "alone"}, {"text": "more"}])
    assert s.run().returncode == 0
    [path] = s.transcripts()
    alone = [str(s.bin / "claude"), "-p", "between us", "--resume", path.stem]
    subprocess.run(alone, cwd=s.work, env=s.environment(), check=True, capture_output=True, timeout=60)
    resumed(s, "job", "and now?")
    s.assert_whole("do the task", "fin", "between us", "alone", "and now?")
    with_us = "\n".join(str(step) for step in s.steps())
    assert "between us" in with_us


def test_another_session_than_the_one_asked_for_is_noticed(harness: Open) -> None:
    """A resume that silently begins anew is not taken for the session: the brief is told instead."""
    other = "11111111-2222-4333-8444-555555555555"
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    done = s.relight("resume", "job", "and now?", "--yes", SCRIPTED_AGENT_OTHER_ID=other)
    assert done.returncode == 0, done.stderr
    assert "mismatch" in "".join(str(step) for step in s.steps())
    s.assert_whole("do the task", "first", "and now?")


def test_a_session_begun_without_relight_is_adopted_and_goes_on(harness: Open) -> None:
    import subprocess

    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    alone = [str(s.bin / "claude"), "-p", "do the task"]
    subprocess.run(alone, cwd=s.work, env=s.environment(), check=True, capture_output=True, timeout=60)
    [path] = s.transcripts()
    before = path.read_bytes()
    done = s.relight("adopt", "--name", "job", path.stem, "--", "claude", "-p")
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == before
    resumed(s, "job", "and now?")
    s.assert_whole("do the task", "first", "fin", "and now?")


def test_a_moved_session_comes_by_a_file(harness: Open, tmp_path: Path) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    bundle = tmp_path / "job.relight"
    key = tmp_path / "key"
    key.write_bytes(b"k" * 64)
    key.chmod(0o600)
    assert s.relight("export", "job", str(bundle), "--sign-key", str(key)).returncode == 0
    there = harness([])
    there.variables["ANTHROPIC_BASE_URL"] = s.model.url
    done = there.relight("import", str(bundle), "--key", str(key), "--workspace", str(there.base / "shop"))
    assert done.returncode == 0, done.stderr
    resumed(there, "job", "and now?", "--restore")
    s.assert_whole("do the task", "first", "fin", "and now?")
