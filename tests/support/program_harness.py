"""A harness for live agents: a home, a directory, a store, a scripted model and the real command line.

Everything is a process of its own; nothing of the caller's home, store or keys reaches it. What was left running is
ended by the marks of its environment when the harness is closed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import relight
from relight.values.info import SessionInfo
from tests.support import processes
from tests.support.fake_model import FakeModel, Item, pairs, texts, unpaired
from tests.support.scripted_agent import install
from tests.support.shell import command, environment, eventually, run_command

SECONDS = 60.0
UNSET = "(unset)"
"""the value of a variable that is to be absent"""
KEY = "sk-ant-api03-fakefakefakefakefakefakefakefakefakefake"


class ProgramHarness:
    """One store, one workspace, one model."""

    def __init__(self, base: Path, script: Any, *, strict: bool = True, **variables: str) -> None:
        self.base = base
        self.home, self.work, self.store = base / "home", base / "work", base / "store" / "r.db"
        for directory in (self.home, self.work):
            directory.mkdir(parents=True)
        self._started: list[subprocess.Popen[str]] = []
        self.bin = install(base / "bin").parent
        self.model = FakeModel(script, strict=strict).start()
        self.variables: dict[str, str] = {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "SCRIPTED_AGENT_FLUSH_MS": "0",
            "XDG_CACHE_HOME": str(Path(tempfile.gettempdir()) / f"relight-live-{os.getuid()}"),
            **variables,
        }

    def play(self, script: Any) -> None:
        """Another script, for one that needs to know the directory."""
        self.model.close()
        self.model = FakeModel(script, strict=True).start()
        self.variables["ANTHROPIC_BASE_URL"] = self.model.url

    def close(self) -> None:
        """End what is left, then the model."""
        for _ in range(3):
            for pid in self.processes():
                _kill(pid)
        for child in self._started:
            child.kill()
            child.wait()
        self.model.close()

    # ---------------------------------------------------------------- the command line

    def environment(self, **more: str) -> dict[str, str]:
        ours = {"HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        given = environment(self.store, **{**ours, **self.variables, **more})
        return {name: value for name, value in given.items() if value != UNSET}

    def relight(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return run_command(
            words,
            env=self.environment(**more),
            cwd=self.work if self.work.is_dir() else self.base,
            seconds=SECONDS,
        )

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start one, in a session of its own, and leave it running."""
        with (self.base / "started.out").open("a") as out:
            child = subprocess.Popen(
                command(*words),
                env=self.environment(**more),
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                text=True,
                start_new_session=True,
            )
        self._started.append(child)
        return child

    def run(self, prompt: str = "do the task", *words: str, name: str = "job", **more: str) -> Any:
        """`relight run --name job --workspace . WORDS -- claude -p PROMPT`, to its end."""
        return self.relight(*self.words(prompt, *words, name=name), **more)

    def begin(self, prompt: str = "do the task", *words: str, name: str = "job", **more: str) -> subprocess.Popen[str]:
        """The same, left running."""
        return self.start(*self.words(prompt, *words, name=name), **more)

    def words(self, prompt: str, *words: str, name: str) -> list[str]:
        agent = ["claude", "-p", prompt, "--output-format", "stream-json", "--verbose"]
        return ["run", "--name", name, "--workspace", str(self.work), *words, "--", *agent]

    def json(self, *words: str) -> Any:
        done = self.relight(*words, "--json")
        assert done.returncode in (0, 4), done.stderr
        return json.loads(done.stdout)

    def info(self, name: str = "job") -> SessionInfo | None:
        """The session as any reader finds it; None before it is there."""
        with relight.open(self.store, create=False) as rl:
            return rl.sessions.find(name)

    def known(self, name: str = "job") -> SessionInfo:
        info = self.info(name)
        assert info is not None
        return info

    def reaches(self, status: str, name: str = "job", seconds: float = 30.0) -> SessionInfo:
        """Wait until the session stands so."""
        what = f"{name} being {status}"

        def stands() -> SessionInfo | None:
            info = self.info(name)
            return info if info is not None and info.status == status else None

        try:
            found: SessionInfo = eventually(stands, seconds=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.evidence(name)}") from None
        return found

    def reaches_one_of(self, *statuses: str, name: str = "job") -> str:
        """Wait until the session stands so; how it stands."""
        return str(eventually(lambda: (i := self.info(name)) and i.status in statuses and i.status))

    def steps(self, name: str = "job") -> list[Any]:
        with relight.open(self.store, create=False) as rl:
            return list(rl.history.events(name))

    def out(self) -> str:
        """What commands that were left running have printed."""
        path = self.base / "started.out"
        return path.read_text() if path.exists() else ""

    # ---------------------------------------------------------------- processes

    def processes(self) -> list[int]:
        """Every living process that has to do with this harness."""
        return [pid for pid in processes.living() if self._is_ours(pid)]

    def agents(self) -> list[int]:
        """Those that are the agent itself."""
        program = str(self.bin / "claude")
        return [pid for pid in processes.living() if program in processes.words(pid) and self._is_ours(pid)]

    def marked(self) -> list[int]:
        """Those that were started for a session: the agent and what it started."""
        return [
            pid
            for pid in processes.living()
            if "RELIGHT_SESSION" in (found := processes.environment(pid)) and self._mine(found)
        ]

    def _is_ours(self, pid: int) -> bool:
        return self._mine(processes.environment(pid)) or any(str(self.base) in word for word in processes.words(pid))

    def _mine(self, found: Mapping[str, str]) -> bool:
        return found.get("RELIGHT_STORE", "").endswith(
            str(self.store)
        )  # a path, or what a supervisor is given: its address

    def the_agent(self) -> int:
        """Wait for the agent's process."""
        return int(eventually(self.agents, what="an agent")[0])

    # ---------------------------------------------------------------- what the model was told

    def last(self) -> list[Item]:
        return self.model.requests()[-1].items

    def assert_whole(self, *said: str) -> None:
        """The last request has everything that was said, and exactly one result for each call."""
        items = self.last()
        assert unpaired(items) == []
        everything = "\n".join(texts(items))
        assert [one for one in said if one not in everything] == []

    def results(self) -> dict[str, str]:
        """What the model was told about each shell command."""
        reported = {}
        for call, result in pairs(self.last()):
            asked = call.value.get("command") or call.value.get("file_path") or ""
            reported[asked] = str(result.value) if result is not None else ""
        return reported

    def evidence(self, name: str = "job") -> str:
        """What a person needs to see when a test fails: the steps, and what the model was asked and told."""
        items = self.last() if self.model.requests() else []
        asked = [f"{call.id} {call.value} -> {result and result.value!r}" for call, result in pairs(items)]
        logs = [path.read_text() for path in self.store.parent.rglob("hook.log")]
        return "\n".join([self.relight("tail", name, "--after", "0").stdout, *asked, *logs, self.out()[-4000:]])

    def transcripts(self, home: Path | None = None) -> list[Path]:
        found: Iterable[Path] = ((home or self.home) / ".claude" / "projects").rglob("*.jsonl")
        return sorted(found, key=lambda path: path.stat().st_mtime)


def kill(pid: int) -> None:
    """As nobody expects it."""
    os.kill(pid, signal.SIGKILL)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
