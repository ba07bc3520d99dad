"""A hint can be typed: its command is one of ours, with flags that it has, about a session that is there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import relight
from relight.cli.app.context import CliContext
from relight.cli.app.group import relight as cli
from relight.cli.app.group import run
from relight.errors import RelightError
from relight.library.facade import Relight
from relight.values.options import RunOptions
from tests.unit.server.test_entry_points import hints_in_the_source

COMMAND = re.compile(r"(?:(?<=^)|(?<=[\s(:]))relight [a-z][a-z-]*(?: [^\s,;|()]+)*")
NUMBERS = {"--budget", "--budget-tokens", "--time-limit", "--retries", "-n"}


def commands_of(text: str) -> list[list[str]]:
    """Those that are whole: an apostrophe in a sentence behind one opens a quotation that never ends."""
    found = [one[0].rstrip(".").replace("`", "") for one in COMMAND.finditer(text)]
    return [shlex.split(one)[1:] for one in found if one.count("'") % 2 == 0 and one.count('"') % 2 == 0]


def parsed(words: list[str]) -> click.Context:
    """As the command line reads it; nothing is run."""
    filled = ["1" if before in NUMBERS else word for before, word in zip(["", *words], words, strict=False)]
    context = click.Context(cli, obj=CliContext())
    command = cli.get_command(context, filled[0])
    assert command is not None, words
    rest = filled[1:]
    while isinstance(command, click.Group) and rest:
        command = command.get_command(context, rest.pop(0))
        assert command is not None, words
    try:
        made = command.make_context(filled[0], list(rest), parent=context)
    except click.BadOptionUsage:
        assert filled[-1].startswith("--"), words  # the beginning of a longer text, whose value comes later
        return click.Context(command)
    except click.BadParameter as error:
        if not isinstance(error, click.MissingParameter):
            assert {word for word in filled if word == "x1" or word.isupper()}, words  # a place for a value
            return click.Context(command)
        assert len(filled) == 1 or filled[0] == "run", words  # a verb that is only named, or its flags
        return click.Context(command)
    except click.NoSuchOption:
        raise
    except click.UsageError as error:
        assert "extra argument" in error.message, words  # the sentence goes on behind it
        return click.Context(command)
    if filled[0] == "resume" and len(filled) > 1:
        assert made.params["ref"] is not None or made.params["everything"], words
    return made


def test_every_command_that_a_text_of_ours_names_is_one_that_can_be_typed() -> None:
    seen = set()
    for text in hints_in_the_source():
        for words in commands_of(text):
            if words[0] in cli.list_commands(click.Context(cli)) and "--x1" not in words:
                parsed(words)
                seen.add(words[0])
    assert {"resume", "restore", "fork", "clear", "settle", "send", "rm", "tail", "show"} <= seen


def follow(store: Path, hints: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the commands among them come to."""
    monkeypatch.setenv("RELIGHT_STORE", str(store))
    return [run(words) for hint in hints for words in commands_of(hint)]


def refused(act: Callable[[], Any]) -> RelightError:
    with pytest.raises(RelightError) as error:
        act()
    return error.value


def captured(rl: Relight, name: str, root: Path, **options: Any) -> None:
    root.mkdir(exist_ok=True)
    with rl.session(name, workspace=root, **options) as s:
        (root / "file").write_text("captured")
        s.append({"role": "user", "content": "x"})


def test_the_hint_for_a_missing_workspace_brings_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, root = tmp_path / "a.db", tmp_path / "w"
    with relight.open(store) as rl:
        captured(rl, "own", root)
        for act in (
            lambda: rl.session("own"),
            lambda: rl.files.diff("own"),
            lambda: rl.history.rewind("own@2", files=True),
        ):
            shutil.rmtree(root)
            error = refused(act)
            assert error.hints == ("recreate it from its snapshots: relight restore own",)
            assert follow(store, error.hints, monkeypatch) == [0]
            assert (root / "file").read_text() == "captured"
        shutil.rmtree(root)
        (reason,) = [one for one in rl.runs.plan("own").reasons if one.blocks]
        assert follow(store, (reason.cure or "",), monkeypatch) == [0] and (root / "file").exists()
        with rl.session("own") as s:
            assert len(s.messages) == 1
        assert rl.history.undo("own") and list(root.iterdir()) == [], "it was an operation like any other"


def test_no_hint_names_a_session_that_was_never_made(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with relight.open(tmp_path / "a.db") as rl:
        roots = {"main": str(nowhere)}
        captured(rl, "manual", tmp_path / "w", snapshot="manual")
        with rl.session("manual") as s:
            s.append({"role": "user", "content": "y"})
        for act in (
            lambda: rl.session("new", workspace=nowhere),
            lambda: rl.runs.create(
                ["true"], RunOptions(directory=str(tmp_path), agent="sh", name="new", workspace=roots)
            ),
            lambda: rl.session("manual@2"),
            lambda: rl.runs.resume("manual@2"),
            lambda: rl.history.fork("manual@2", workspace=str(nowhere)),
        ):
            error = refused(act)
            assert error.hints, error
            for words in (words for hint in error.hints for words in commands_of(hint)):
                ref = next((word for word in words[1:] if not word.startswith("-")), None)
                assert ref is not None and rl.sessions.find(ref) is not None, error.hints
            named = re.match(r"([0-9a-f]{8,})(?:@\d+)?: ", error.message)
            assert named is None or rl.sessions.find(named[1]) is not None, error.message
        assert "mkdir -p" in refused(lambda: rl.session("new", workspace=nowhere)).hints[0]


def test_a_restore_that_fails_leaves_no_directory_behind(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with relight.open(tmp_path / "a.db") as rl, relight.open(tmp_path / "a.db") as other:
        captured(rl, "own", root)
        with rl.session("own") as s:
            s.append({"role": "user", "content": "held"})
            shutil.rmtree(root)
            refused(lambda: other.files.restore("own"))
            assert not root.exists()


def test_what_ends_a_waiting_session_is_told_and_no_hint_is_refused_in_turn(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with pytest.raises(relight.Waiting), rl.session("asks") as s:
            s.ask("Deploy?")
        with pytest.raises(RelightError) as archived:
            rl.sessions.archive("asks")
        assert archived.value.hints == ("see what it waits for: relight show asks", "or remove it: relight rm asks")
        with pytest.raises(RelightError) as cleared:
            rl.admin.release("asks")
        assert cleared.value.hints == ("see what it does: relight show asks",)
        assert rl.sessions.remove("asks").names == ["asks"]
