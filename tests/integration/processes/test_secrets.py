"""Secrets: not in the journal, not in what we keep beside it; a missing one is named before anything starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.processes.conftest import Open
from tests.support.files_on_disk import files_below
from tests.support.program_harness import KEY, UNSET, ProgramHarness

SECRET = "correct-horse-battery-staple-4711"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def kept(s: ProgramHarness) -> bytes:
    """The journal and what stands beside it, the output of the agent included."""
    found = [(path, data) for path, data in files_below(s.store.parent) if ".blobs" not in str(path)]
    assert {path.stat().st_mode & 0o077 for path, _ in found if path.exists()} == {0}
    return b"".join(data for _, data in found)


@pytest.mark.parametrize("runtime", ["process", "tmux"])
def test_a_secret_that_the_agent_saw_does_not_rest_in_the_journal(
    harness: Open, runtime: str, program: Callable[[str], str]
) -> None:
    program("tmux")
    s = harness(
        [{"calls": [{"shell": f'echo "$MY_API_TOKEN" {GITHUB}'}]}, {"text": f"the token is {SECRET}"}],
        MY_API_TOKEN=SECRET,
    )
    done = s.run("do the task", "--runtime", runtime)
    assert done.returncode == 0, done.stderr
    shown = s.relight("tail", "job", "--after", "0", "--json").stdout
    assert SECRET not in shown and GITHUB not in shown
    assert SECRET not in str(s.known())
    for secret in (SECRET, GITHUB, KEY):
        assert secret.encode() not in kept(s), secret[:6]


def test_a_redacted_session_still_resumes_from_its_own_transcript(harness: Open) -> None:
    s = harness(
        [{"calls": [{"shell": 'echo "$MY_API_TOKEN"'}]}, {"text": "fin"}, {"text": "more"}],
        MY_API_TOKEN=SECRET,
    )
    assert s.run().returncode == 0
    done = s.relight("resume", "job", "and now?", "--yes")
    assert done.returncode == 0, done.stderr
    s.assert_whole("do the task", "fin", "and now?", SECRET)
    assert len(s.transcripts()) == 1, "the agent's own file agrees with the journal and is used"


def test_missing_secrets_are_all_named_before_anything_starts(harness: Open) -> None:
    s = harness([{"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    requests = len(s.model.requests())
    refused = s.relight("resume", "job", "and now?", "--yes", ANTHROPIC_API_KEY=UNSET)
    assert refused.returncode == 4, refused.stderr
    assert "ANTHROPIC_API_KEY" in refused.stderr
    assert KEY not in refused.stderr
    assert len(s.model.requests()) == requests
    assert s.known().attempt == 1


def test_an_agent_that_is_not_installed_is_named_with_the_way_to_get_it(harness: Open) -> None:
    s = harness([])
    (s.bin / "claude").unlink()
    done = s.run(PATH="/usr/bin:/bin")
    assert done.returncode != 0
    assert "npm install -g @anthropic-ai/claude-code" in done.stderr


def test_prompts_and_file_names_with_a_secret_are_in_no_file_beside_the_store_either(harness: Open) -> None:
    named = "ghp_" + "z9Y8x7W6v5" * 3 + "u4T3s2"
    s = harness([{"calls": [{"shell": f"touch {named}.txt"}]}, {"text": "fin"}, {"text": "more"}])
    done = s.run(f"use {GITHUB}")
    assert done.returncode == 0, done.stderr
    again = s.relight("resume", "job", f"and {GITHUB} again", "--yes")
    assert again.returncode == 0, again.stderr
    s.assert_whole(f"use {GITHUB}", f"and {GITHUB} again")
    held = b"".join(str(path).encode() + data for path, data in files_below(s.store.parent))
    for secret in (GITHUB, named):
        assert secret.encode() not in held and secret not in str(s.steps()) + str(s.known())
    assert (s.work / f"{named}.txt").exists(), "and it stays on the disk"
