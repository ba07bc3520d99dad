"""Is the repository in a workspace where the session left it? What is compared is the branch, not the commit.

An agent commits, and so do people: another commit on the same branch is work going on. Another branch, or no
repository at all, means that the files are not those the session worked on.
"""

from __future__ import annotations

from typing import Final

from relight.values.snapshot import GitHead

MOVED: Final = "repository_moved"
"""the code of the reason that stands against a start"""
NOTE: Final = "repository_accepted"
"""in a step's note: root name to the head that a person said is right"""
_BRANCHES: Final = "refs/heads/"


def moved(recorded: str, *, is_there: bool, now: GitHead | None) -> str | None:
    """What became of a repository, in words; None where it stands as recorded. `recorded` is as `standing` says."""
    if not is_there:
        return None if recorded == "" else f"its repository (.git) is gone; it was on {recorded}"
    if now is None:
        return None if recorded == "" else f"its repository (.git) cannot be read; it was on {recorded}"
    found = standing(now)
    return None if recorded in ("", found) else f"its repository is on {found}, and was on {recorded}"


def standing(head: GitHead | None) -> str:
    """Where a repository stands; empty where there is none."""
    if head is None:
        return ""
    if not head.ref:
        return "no branch"
    return f"branch {head.ref.removeprefix(_BRANCHES)}" if head.ref.startswith(_BRANCHES) else head.ref
