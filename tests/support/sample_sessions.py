"""Sessions as people have them, made in a moment: their clock is moved by hand, so that hours lie between their steps.

The directories are below the one that is given; no path of the machine that makes a picture has to be in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

import relight
from relight.errors import Waiting
from relight.system.machine import SystemHost
from relight.testing.clock import ManualClock, SeededEntropy
from relight.values.lease import Owner
from relight.values.status import Failure

HOURS = 3600.0


def says(text: str, *calls: tuple[str, str, dict[str, Any]], reason: str = "") -> dict[str, Any]:
    """A reply in Anthropic's form."""
    blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": reason, "signature": "c2lnbmVk"}] if reason else []
    blocks += [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": key, "name": name, "input": given} for key, name, given in calls]
    return {"role": "assistant", "content": blocks}


def spent(cost: float, tokens: int = 12_000) -> dict[str, Any]:
    return {"input_tokens": tokens, "output_tokens": 300, "cache_read_input_tokens": tokens * 4, "cost": cost}


class ThisMachine(SystemHost):
    """The machine that it is, under a name that is nobody's."""

    def owner(self, owner_id: str) -> Owner:
        return msgspec.structs.replace(super().owner(owner_id), host="laptop")


class Scenes:
    """Everything in one store."""

    def __init__(self, store: Path, directory: Path, *, hours_ago: float = 3.46, seed: int = 7) -> None:
        self.clock = ManualClock(now_us=round((time.time() - hours_ago * HOURS) * 1e6), timeline="scenes")
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._home = os.getcwd()
        os.chdir(directory)  # a session remembers where its program was started
        self.rl = relight.open(store, clock=self.clock, entropy=SeededEntropy(seed), host=ThisMachine())
        self._tools: list[Callable[..., Any]] = [self._tool(name) for name in ("read_file", "edit_file", "run_tests")]
        self._mail = self._tool("send_mail", effect="once")

    def _tool(self, name: str, effect: str = "idempotent") -> Callable[..., Any]:
        def tool(**given: Any) -> str:
            self.clock.advance(given.get("seconds", 0.4))
            if given.get("fails"):
                raise RuntimeError(str(given["fails"]))
            path, text = given.get("path"), given.get("text")
            if name == "edit_file" and path and text is not None:
                (self._work / path).parent.mkdir(parents=True, exist_ok=True)
                (self._work / path).write_text(text)
            return str(given.get("answer", "done"))

        tool.__name__ = name
        return relight.tool(effect=effect)(tool)  # type: ignore[call-overload]

    def work(self, name: str) -> Path:
        made = self.directory / name
        made.mkdir(parents=True, exist_ok=True)
        self._work = made
        return made

    def turn(
        self, s: Any, text: str, *calls: tuple[str, dict[str, Any]], cost: float = 0.03, think: float = 6.0
    ) -> None:
        """A reply, then its tools."""
        self.clock.advance(think)
        asked = [(f"call_{s.head.rpartition('@')[2]}_{n}", name, given) for n, (name, given) in enumerate(calls)]
        s.append(says(text, *asked, reason="Look at the failing test first."), usage=spent(cost))
        for call in s.pending_calls():
            s.run_tool(call, [*self._tools, self._mail])

    # -- the scenes -------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """All of them, ending a few minutes ago."""
        self.changelog()
        self.fix_login()
        self.nightly_docs()
        self.unnamed()
        self.archived()
        self.refactor()
        self.clock.advance(40)

    def fix_login(self) -> None:
        """A long one: killed once, resumed, labelled, forked, and now it asks."""
        work = self.work("shop")
        (work / "src").mkdir(exist_ok=True)
        (work / "src" / "auth.py").write_text("def refresh(token):\n    return token\n")
        (work / "tests").mkdir(exist_ok=True)
        (work / "tests" / "test_auth.py").write_text("def test_refresh():\n    assert refresh('a')\n")
        fields: dict[str, Any] = {"agent": "claude", "provider": "anthropic", "model": "claude-opus", "workspace": work}
        s = self.rl.session("fix-login", task="Make the login test pass", labels={"team": "web"}, **fields)
        s.append({"role": "user", "content": "Make the login test pass. Do not touch the database."})
        self.turn(s, "I will look at the failing test.", ("read_file", {"path": "tests/test_auth.py"}))
        fails = "2 failed: test_refresh, test_expiry\nE   assert refresh('a') == 'b'"
        self.turn(s, "The token is refreshed twice.", ("run_tests", {"seconds": 38, "fails": fails}), cost=0.09)
        for n in range(4):
            text = f"def refresh(token):\n    # attempt {n}\n    return renew(token, {n})\n"
            self.turn(s, f"Try {n + 1}: renew once.", ("edit_file", {"path": "src/auth.py", "text": text}), cost=0.07)
            self.clock.advance(600)
        self.dies("fix-login")
        self.clock.advance(2.2 * HOURS)
        s = self.rl.session("fix-login", **fields)
        self.turn(s, "I go on where I stopped.", ("run_tests", {"seconds": 41, "answer": "48 passed"}), cost=0.21)
        s.checkpoint("tests-green")
        (work / ".envrc").write_text("export TOKEN=\n")
        self.turn(s, "Tell the team.", ("send_mail", {"to": "team@example.com", "subject": "fixed"}), cost=0.02)
        text = "def refresh(token):\n    return renew(token)\n"
        self.turn(s, "Tidy up.", ("edit_file", {"path": "src/auth.py", "text": text}), cost=0.05)
        fork = self.rl.history.fork("fix-login@tests-green", name="fix-login-argon2", prompt="Try argon2 instead")
        assert fork.parent is not None
        self.clock.advance(300)
        s.append(says("Everything is green. May I push?"), usage=spent(0.04))
        with suppress(Waiting):
            s.ask("Run `git push origin main`?")
        s.close()

    def dies(self, name: str) -> None:
        """Its process is gone, as far as the store can tell; the object that wrote is left as a kill leaves it."""
        self.clock.advance(20)
        self.rl.admin.release(name, why="signal 9", who="the machine")

    def changelog(self) -> None:
        with self.rl.session("changelog", agent="codex", provider="anthropic", workspace=self.work("cli")) as s:
            s.append({"role": "user", "content": "Write the changelog for 2.4"})
            edit = {"path": "CHANGELOG.md", "text": "# 2.4\n\n- uv\n"}
            self.turn(s, "I read the log.", ("edit_file", edit), cost=0.08)
            s.append(says("Wrote CHANGELOG for 2.4."), usage=spent(0.03))
            s.complete({"files": 1})
        self.clock.advance(900)

    def nightly_docs(self) -> None:
        s = self.rl.session("nightly-docs", agent="claude", provider="anthropic", workspace=self.work("docs"))
        s.append({"role": "user", "content": "Rebuild the docs"})
        self.turn(s, "Building.", ("run_tests", {"seconds": 4}), cost=0.2)
        text = "API Error: 401 invalid x-api-key\nthe provider refused the key"
        s.fail("auth: the provider refused the key (401)", failure=Failure(kind="auth", text=text))
        s.close()
        self.clock.advance(600)

    def unnamed(self) -> None:
        made = self.rl.session(
            "scratch-1", agent="mine", task="Summarise the last ten incidents and file them by cause"
        )
        with made as s:
            s.append({"role": "user", "content": "Summarise the last ten incidents"})
            s.halt("stopped by its own guard: 5 turns without a change")

    def refactor(self) -> None:
        """One that is in the middle of something for ever, as far as anybody can tell."""
        s = self.rl.session("refactor-db", agent="claude", provider="anthropic")
        s.append({"role": "user", "content": "Split the models"})
        self.turn(s, "Reading.", ("read_file", {"path": "models.py"}), cost=3.1)

    def archived(self) -> None:
        with self.rl.session("old-spike", agent="claude", provider="anthropic") as s:
            s.append({"role": "user", "content": "A spike"})
            s.complete("done")
        self.rl.sessions.archive("old-spike")

    def close(self) -> None:
        os.chdir(self._home)
        self.rl.close()
