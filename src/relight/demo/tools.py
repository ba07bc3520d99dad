"""The agent's five tools, on real files and a mail server in another process. They work in the agent's directory.

Each declares its effect. Reading and testing change nothing; an edit can be probed for in the file; a mail cannot be
undone, so it is `once`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import relight
from relight.demo import script, shop
from relight.demo.wire import ask


def run_name() -> str:
    """Name of the run: that of the working directory."""
    return Path.cwd().name


@relight.tool(effect="pure")
def read_file(path: str) -> str:
    """Read a text file of the shop."""
    return Path(path).read_text(encoding="utf-8")


def _edited(path: str, old: str, new: str) -> str:
    return f"{path} +{len(new.splitlines()) - len(old.splitlines())} -0"


def _find_edit(path: str, old: str, new: str) -> str | None:
    """The result of the edit if it was made already, else None."""
    return _edited(path, old, new) if new in Path(path).read_text(encoding="utf-8") else None


@relight.tool(effect="probe", probe=_find_edit)
def edit_file(path: str, old: str, new: str) -> str:
    """Replace a text in a file, all or nothing."""
    text = Path(path).read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"the text to replace occurs {text.count(old)} times in {path}")
    beside = Path(f"{path}.new")
    beside.write_text(text.replace(old, new), encoding="utf-8")
    os.replace(beside, path)
    return _edited(path, old, new)


@relight.tool(effect="pure")
def run_tests() -> str:
    """Run the tests that are here."""
    passed, ran = shop.run_tests(Path.cwd())
    return f"{passed} passed" if passed == ran > 0 else f"{ran - passed} of {ran} failed"


@relight.tool(effect="once")
def send_mail(to: str, subject: str) -> str:
    """Send a mail through the mail server."""
    return str(ask("mail", run_name(), to=to, subject=subject))


@relight.tool(effect="pure")
def check_outbox() -> str:
    """How many mails went out?"""
    found = int(ask("outbox", run_name()))
    return f"{found} mail{'s' if found > 1 else ''} found" if found else script.NO_MAIL


TOOLS: Final = (read_file, edit_file, run_tests, send_mail, check_outbox)
