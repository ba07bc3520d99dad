"""Whether a Git repository in a workspace is where the session left it. Compared is the branch, not the commit.

Agents and people commit: another commit on the same branch is progress. Another branch, or no repository, means that
the files are not those the session worked on.
"""

from __future__ import annotations

from typing import Final

from relight.values.snapshot import GitHead

MOVED: Final = "repository_moved"
"""code of the reason against a start"""
NOTE: Final = "repository_accepted"
"""key in a step's note: root name to the repository head that a person accepted"""
_BRANCHES: Final = "refs/heads/"


def moved(recorded: str, *, is_there: bool, now: GitHead | None) -> str | None:
    """How the repository differs from what was recorded, in words; None if it does not. `recorded` is a
    `repository_head`."""
    if not is_there:
        return None if recorded == "" else f"its repository (.git) is gone; it was on {recorded}"
    if now is None:
        return None if recorded == "" else f"its repository (.git) cannot be read; it was on {recorded}"
    found = repository_head(now)
    return None if recorded in ("", found) else f"its repository is on {found}, and was on {recorded}"


def repository_head(head: GitHead | None) -> str:
    """Branch or commit of a repository as text; empty if there is none."""
    if head is None:
        return ""
    if not head.ref:
        return "no branch"
    return f"branch {head.ref.removeprefix(_BRANCHES)}" if head.ref.startswith(_BRANCHES) else head.ref
