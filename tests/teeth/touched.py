"""`make check`: every planted bug applies, and those of the files that this branch touches are noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.teeth.runner import Tooth, Toothless, edited, read, source_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def main() -> int:
    """The exit status: 1 where an edit no longer applies, else pytest's over the planted bugs of touched files."""
    bugs = [read(path) for path in sorted(HERE.glob("*.toml"))]
    stale = [str(error) for bug in bugs if (error := _stale(bug)) is not None]
    if stale:
        print("\n".join(stale), file=sys.stderr)
        return 1
    changed = _changed()
    names = [bug.path.stem for bug in bugs if any(edit.file in changed for edit in bug.edits)]
    if not names:
        return 0
    only = [f"{HERE / 'test_teeth.py'}::test_planted_bug_is_noticed[{name}]" for name in names]
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *only], cwd=ROOT, check=False).returncode


def _stale(bug: Tooth) -> Toothless | None:
    texts: dict[str, str] = {}
    try:
        for edit in bug.edits:
            texts[edit.file] = edited(bug, edit, texts.get(edit.file) or source_of(bug, edit, ROOT))
    except Toothless as error:
        return error
    return None


def _changed() -> set[str]:
    """Source files that differ from origin/main, committed or not; without that branch, from the last commit."""
    for base in ("origin/main", "HEAD"):
        found = subprocess.run(
            ["git", "diff", "--name-only", base, "--", "src"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return set(found.stdout.split())
    return set()


if __name__ == "__main__":
    sys.exit(main())
