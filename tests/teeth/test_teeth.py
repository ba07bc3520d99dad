"""Every planted bug turns its test red."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.teeth.runner import BOUND_SECONDS, bite, read

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

PATCHES = sorted(HERE.glob("*.patch"))


@pytest.mark.teeth
@pytest.mark.timeout(BOUND_SECONDS + 60)
@pytest.mark.parametrize("patch", [pytest.param(patch, id=patch.stem) for patch in PATCHES])
def test_planted_bug_is_noticed(patch: Path, tmp_path: Path) -> None:
    bite(read(patch), root=ROOT, scratch=tmp_path)
