"""Servers that refuse, and what everybody is told meanwhile: through the library, and on the command line."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from typing import Any, Final, NamedTuple

import pytest

import relight
from relight.cli.app.group import run
from relight.errors import StoreError

Trouble = Callable[[], AbstractContextManager[None]]
SECRET: Final = "hunter2-51"
"""a password that must not be seen anywhere"""


class Typed(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    err: str


def typed(address: str, *words: str) -> Typed:
    """A command on the store at this address."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["--store", address, *words])
    return Typed(code, out.getvalue(), err.getvalue())


class Expected(NamedTuple):
    """What is told while the trouble lasts."""

    code: str
    hint: str
    """somewhere in the hints"""
    reading: bool = False
    """it can be read all the same"""
    open_goes_on: bool = False
    """who has it open already is not hit"""


def survives(address: str, trouble: Trouble, expected: Expected, *, seen_at: str | None = None) -> None:
    """A session through a trouble: nothing that was acknowledged is lost, nothing refused is there, and all is told.

    `seen_at` is the address that has the trouble, where it is another one.
    """
    with relight.open(address) as rl, rl.session("idle") as s:
        s.append({"role": "user", "content": "not at work"})
    with relight.open(address) as rl, rl.session("kept") as s:
        said = ["one", "two"]
        for text in said:
            s.append({"role": "user", "content": text})
        with trouble():
            if expected.open_goes_on:
                s.append({"role": "user", "content": "meanwhile"})
                said.append("meanwhile")
            else:
                with pytest.raises(StoreError) as refused:
                    s.append({"role": "user", "content": "refused"})
                check(refused.value, expected)
            opened_in_trouble(seen_at or address, expected)
        s.append({"role": "user", "content": "after"})
    with relight.open(address) as rl:
        assert [message["content"] for message in rl.history.load("kept").messages] == [*said, "after"]
        assert rl.history.verify().ok
        rl.sessions.remove("kept")


def opened_in_trouble(address: str, expected: Expected) -> None:
    """Who comes now is told: exit 5, the code, a hint, no trace, no password."""
    with pytest.raises(StoreError) as refused, relight.open(address) as rl:
        rl.session("new")
    check(refused.value, expected)
    looked = typed(address, "list")
    assert looked.code == (0 if expected.reading else 5), looked
    assert ("kept" in looked.out) == expected.reading
    for words in (("send", "idle", "hello"), ("fork", "kept")):
        done = typed(address, *words)
        assert done.code == 5, (words, done)
        assert done.err.splitlines()[-1].startswith("hint: "), done.err
        assert f"({expected.code})" in done.err, done.err
        assert "Traceback" not in done.err
        assert SECRET not in done.err + done.out
    doctor = typed(address, "doctor")
    assert doctor.code == (0 if expected.reading else 5), doctor
    assert SECRET not in doctor.err + doctor.out


def check(error: StoreError, expected: Expected) -> None:
    """The library's error."""
    assert (error.code, error.exit_code) == (expected.code, 5), repr(error)
    assert any(expected.hint in hint for hint in error.hints), error.hints
    shown = " ".join((error.message, *error.evidence, *error.hints))
    assert SECRET not in shown


def by_name(cases: dict[str, Any]) -> Any:
    """One test a case."""
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())
