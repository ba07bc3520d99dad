"""A scripted coding agent: a small real program that behaves like Claude Code, as far as a supervisor can tell.

It keeps the same transcript in the same place, runs hooks, asks a model over HTTP (ANTHROPIC_BASE_URL, such as
`tests.support.fake_model`), runs its tools as real processes, and can be killed, resumed and forked. What the real
one does to a supervisor it does too: lines reach the disk late, a shell command lives in a session of its own and
survives its agent, parallel results come in the order they finish, nothing locks a session.

    directory = tmp_path / "bin"
    install(directory)          # an executable `claude`
    PATH=directory:$PATH relight run -- claude -p "do it"

Variables of its own, for tests: SCRIPTED_AGENT_FLUSH_MS (how late lines reach the disk, 100), SCRIPTED_AGENT_RETRY_MS
(the first pause before a request is repeated, 500), SCRIPTED_AGENT_OTHER_ID (begin this session whatever is asked
for, as a broken resume does).
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Final

__all__ = ["install"]

_SHEBANG: Final = 120
"""longer first lines are cut by some kernels"""
_LAUNCHER: Final = """\
{first}
import sys
sys.path.insert(0, {source!r})
from tests.support.scripted_agent.__main__ import main
sys.exit(main())
"""


def install(directory: Path, name: str = "claude") -> Path:
    """Write an executable that is this agent into a directory, to be put on PATH."""
    # A copy beside the executable: a sandbox shows the program's directory, and not this checkout.
    source = directory / "lib"
    package = Path(__file__).resolve().parent
    shutil.copytree(
        package,
        source / "tests/support/scripted_agent",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    first = f"#!{sys.executable} -I"
    if len(first) > _SHEBANG or " " in sys.executable:
        raise ValueError(f"the interpreter's path is too long or has a space in it: {sys.executable}")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(_LAUNCHER.format(first=first, source=str(source.absolute())))
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return Path(os.path.abspath(path))
