"""Every planted bug turns its test red."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.teeth.runner import BOUND_SECONDS, bite, read

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

BUGS = sorted(HERE.glob("*.toml"))


@pytest.mark.teeth
@pytest.mark.timeout(BOUND_SECONDS + 60)
@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.stem) for bug in BUGS])
def test_planted_bug_is_noticed(bug: Path, tmp_path: Path) -> None:
    bite(read(bug), root=ROOT, scratch=tmp_path)
