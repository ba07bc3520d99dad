"""What the pages say is true: their code runs, their output is what is printed, their links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import LANGUAGES, PAGES, ROOT, Block, blocks, commands, missing
from tests.support import scripted_agent
from tests.support.fake_model import FakeModel

SECONDS = 60
SCRIPT = [{"text": "I look.", "calls": [{"shell": "echo one >> log.txt"}]}, *[{"text": "All done."}] * 20]
SDK_SCRIPT = [
    {"text": "I send it.", "calls": [{"name": "send_mail", "input": {"to": "Ada"}}]},
    *[{"text": "Ada knows."}] * 20,
]
LINKED = list(dict.fromkeys([*PAGES, *sorted((ROOT / "docs").rglob("*/*.md"))]))
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_VERB = re.compile(r"`make ([a-z]+)`")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory, a home and a store of the page's own, with our commands on the path."""
    room, programs = tmp_path / "page", tmp_path / "bin"
    room.mkdir()
    programs.mkdir()
    for name, what in (
        ("python", ""),
        ("relight", ' -c "import sys; from relight.cli.main import main; sys.exit(main())"'),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{what} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.chdir(room)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "relight.db"))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a reader has few of ours, and each takes a second
    return room


@pytest.fixture
def an_agent(elsewhere: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For pages about coding agents and SDKs: an agent on the path, and a model that can be asked."""
    scripted_agent.install(elsewhere.parent / "bin")
    is_sdk = page.parent.name == "sdks"
    with FakeModel(script=SDK_SCRIPT if is_sdk else SCRIPT, exact=is_sdk) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-fake-key-of-the-pages")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-fake-key-of-the-pages")
        monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")  # for the real one inside its SDK
        yield


@pytest.mark.long
@pytest.mark.usefixtures("an_agent")
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_of_a_page_runs(page: Path, elsewhere: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        where = f"{named(page)}:{block.line}"
        if block.language == "console":
            run_console(page, block)
        elif block.saved_as:
            (elsewhere / block.saved_as).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = run_python(page, block, namespace)
        elif block.touches_former and printed:
            absent = missing([line.strip() for line in block.text.splitlines() if line.strip()], printed)
            assert not absent, f"{where}: not printed: {absent}\nprinted:\n{printed}"
        if block.language != "python":
            printed = ""


def run_python(page: Path, block: Block, namespace: dict[str, Any]) -> str:
    """Run a block in the page's namespace; what it printed."""
    out = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def run_console(page: Path, block: Block) -> None:
    """Run each command of a block as its reader would."""
    for command in commands(block):
        ran = subprocess.run(
            ["bash", "-c", command.shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        where = f"{named(page)}:{command.line}: {command.shell}"
        code = ran.returncode if ran.returncode >= 0 else 128 - ran.returncode
        assert code == command.exit_code, f"{where}: exit {code}\n{ran.stdout}"
        absent = missing(command.shown, ran.stdout)
        assert not absent, f"{where}: not in its output: {absent}\nprinted:\n{ran.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_block_is_skipped_in_silence(page: Path) -> None:
    found = blocks(page)
    odd = [f"{block.line}: {block.language!r}" for block in found if block.language not in LANGUAGES]
    assert odd == [], "a fence is python, console or text"
    empty = [block.line for block in found if block.language == "console" and not commands(block)]
    assert empty == [], "a console block without a command"
    shells = [command.shell for block in found if block.language == "console" for command in commands(block)]
    unrun = [block.saved_as for block in found if block.saved_as and not any(block.saved_as in one for one in shells)]
    assert unrun == [], "a program that no console block runs"


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [target for target in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_test_and_verb_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    absent = [f"{path}::{test}" for path, test in _TEST.findall(text) if not _has_test(ROOT / path, test)]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    absent += [f"make {verb}" for verb in _VERB.findall(text) if f"\n{verb}:" not in makefile]
    assert absent == []


def _has_test(path: Path, test: str) -> bool:
    return path.exists() and (not test or f"def {test}(" in path.read_text(encoding="utf-8"))


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted(folder.glob("[0-9]*.md")) if f"({page.name})" not in index] == []
