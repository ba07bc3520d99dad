"""The command line behaves the same on every store: the same words, byte for byte, and the same exit codes.

Each scene is played on a runner of every kind with the same clock and the same chance. The memory store is the
specification: whoever answers otherwise than it does is wrong.
"""

from __future__ import annotations

import shlex
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.integration.acceptance.conftest import Addresses
from tests.integration.acceptance.scenarios import SCENES, Scene
from tests.support.cli_runner import Answer, CliRunner


def played(scene: Scene, kind: str, address: str, directory: Path) -> list[Answer]:
    runner = CliRunner(kind, address, directory)
    scene(runner)
    return runner.answers


def difference(ours: Answer, theirs: Answer) -> str:
    """Only what differs, under the command that said it."""
    expected, got = (f"{one.out}\n{one.err}\nexit {one.code}".splitlines() for one in (theirs, ours))
    lines = unified_diff(expected, got, "memory", "here", lineterm="", n=1)
    return "\n".join([f"relight {shlex.join(ours.words)}", *lines])


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_scene_is_the_same_on_every_store(scene: Scene, kind: str, address_of: Addresses, tmp_path: Path) -> None:
    expected = played(scene, "memory", "memory:", tmp_path / "memory")
    answers = played(scene, kind, address_of(kind, tmp_path), tmp_path / kind)
    assert len(answers) == len(expected)
    for ours, theirs in zip(answers, expected, strict=True):
        assert ours == theirs, difference(ours, theirs)
