"""A real coding agent under the real command line: a home, a directory, a store and a scripted model of its own.

Everything is a process of its own and knows nothing of whoever runs the tests. What is left running when a harness is
closed is ended by the mark of its store.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import relight
from relight.values.info import SessionInfo
from tests.support import real_agents as real
from tests.support.fake_model import FakeModel, Item, Request, pairs, texts, unpaired
from tests.support.processes import environment, executable, living, parent, words
from tests.support.shell import SOURCE, command, eventually

KINDS = ("claude", "codex")
OTHERS = ("pi", "opencode", "gemini")
"""agents that share a shorter list of tests"""
SECONDS = 180.0
"""for what has to come, on a machine that has many other things to do"""
TASK = "do the work"
UNKNOWN = "outcome unknown"
_SCREEN = {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}


SEEN: Final[list[str]] = []
"""the evidence of every harness that was closed since the list was emptied"""


class AgentHarness:
    """One agent, one store, one model."""

    def __init__(self, kind: str, base: Path, script: Any, **variables: str) -> None:
        self.kind, self.base = kind, base
        self.home, self.work, self.store = base / "home", base / "work", base / "store" / "r.db"
        for directory in (self.home, self.work, base / "bin"):
            directory.mkdir(parents=True)
        found = {
            "claude": real.claude_binary,
            "codex": real.codex_binary,
            "opencode": real.opencode_binary,
            "pi": real.pi_script,
            "gemini": real.gemini_script,
        }[kind]()
        self.binary = real.node() if kind in ("pi", "gemini") else found
        self.program = base / "bin" / kind
        self.program.symlink_to(found)
        self.variables = variables
        self.daemon = False
        """may a Codex on a screen start its daemon?"""
        self.model = FakeModel(script, strict=True).start()
        self._left: list[subprocess.Popen[str]] = []

    def evidence(self) -> str:
        """What there is to see now: the sessions, the processes, what the model was asked last, what was printed."""
        try:
            with relight.open(self.store, create=False) as rl:
                sessions = [repr(one) for one in rl.sessions.list()]
        except relight.RelightError as error:
            sessions = [repr(error)]
        processes = [f"{pid} (of {parent(pid)}): {' '.join(words(pid))[:300]}" for pid in self.processes()]
        requests = self.model.requests()
        asked = (
            [f"{len(requests)} requests", *(f"{call} -> {result}" for call, result in self.results(requests[-1].items))]
            if requests
            else []
        )
        printed = self.base / "said"
        return "\n".join([*sessions, *processes, *asked, self.said if printed.exists() else ""])

    def close(self) -> None:
        """End what is left, then the model."""
        SEEN.append(self.evidence())
        for _ in range(3):
            for pid in self.processes():
                kill(pid)
        for child in self._left:
            child.kill()
            child.wait()
        self.model.close()

    # ---------------------------------------------------------------- the command line

    def environment(self, home: Path | None = None, cwd: Path | None = None) -> dict[str, str]:
        """Of a shell in this home; the agent is configured in it."""
        home, cwd, url = home or self.home, cwd or self.work, self.model.url
        agent: real.Claude | real.Codex | real.Pi | real.Opencode | real.Gemini
        if self.kind == "claude":
            agent = real.Claude(home=home, cwd=cwd, url=url, extra=self.variables)
        elif self.kind == "opencode":
            agent = real.Opencode(home=home, cwd=cwd, url=url, extra=self.variables)
        elif self.kind == "pi":
            agent = real.Pi(home=home, cwd=cwd, url=url, extra=self.variables)
            agent.configure()
        elif self.kind == "gemini":
            agent = real.Gemini(home=home, cwd=cwd, url=url, extra=self.variables)
            agent.configure()
        else:
            agent = real.Codex(home=home, cwd=cwd, url=url, extra=self.variables, daemon=self.daemon)
            agent.configure()
        shared = Path(tempfile.gettempdir())
        given = agent.environment()
        return {
            **given,
            "PATH": f"{self.base / 'bin'}:{given['PATH']}",
            "RELIGHT_STORE": str(self.store),
            "PYTHONPATH": SOURCE,
            "PYTHONPYCACHEPREFIX": str(shared / f"relight-pyc-{os.getuid()}"),
            "XDG_CACHE_HOME": str(shared / f"relight-agents-{os.getuid()}"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }

    def relight(self, *words: str, home: Path | None = None, cwd: Path | None = None) -> Any:
        """Run one command to its end; one that does not end tells how far it came, and whether it was still at work."""
        try:
            return subprocess.run(
                command(*words),
                cwd=cwd or self.work,
                env=self.environment(home, cwd),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            asked = [(one.slot, one.path) for one in self.model.requests()]
            printed = (late.stdout or b"")[-2000:]
            raise AssertionError(
                f"relight {' '.join(words)} did not end within {SECONDS:g} s, with a load of {os.getloadavg()}\n"
                f"journal: {self.find()}\nasked of the model: {asked}\nagents: {self.agents()}\nprinted: {printed!r}"
            ) from late

    def do(self, *words: str, home: Path | None = None, cwd: Path | None = None) -> str:
        """Run one that has to succeed; what it printed."""
        done = self.relight(*words, home=home, cwd=cwd)
        assert done.returncode == 0, f"relight {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return str(done.stdout)

    def start(self, *words: str, home: Path | None = None, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start one and leave it running; what it prints is in `said`."""
        return self.launch(command(*words), self.environment(home, cwd), cwd)

    def launch(self, words: list[str], environment: dict[str, str], cwd: Path | None = None) -> subprocess.Popen[str]:
        """Any command, left running."""
        with (self.base / "said").open("a") as said:
            child = subprocess.Popen(
                words,
                cwd=cwd or self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                text=True,
                start_new_session=True,
            )
        self._left.append(child)
        return child

    @property
    def said(self) -> str:
        return (self.base / "said").read_text()[-6000:]

    def agent(self, prompt: str = TASK) -> list[str]:
        """The agent's command, as a user gives it."""
        if self.kind == "claude":
            flags = ["--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"]
            return ["claude", "-p", prompt, *flags]
        if self.kind == "opencode":
            return ["opencode", "run", "--format", "json", prompt]
        if self.kind == "gemini":
            return ["gemini", "--model", "gemini-2.5-pro", "--output-format", "stream-json", f"--prompt={prompt}"]
        if self.kind == "pi":
            return ["pi", "-p", "--mode", "json", prompt]
        return ["codex", "exec", "--json", "--skip-git-repo-check", prompt]

    def words(self, *words: str, prompt: str = TASK) -> list[str]:
        return ["run", "--name", "job", *words, "--", *self.agent(prompt)]

    def run(self, *words: str, prompt: str = TASK) -> str:
        """`relight run --name job -- agent`, to its end."""
        return self.do(*self.words(*words, prompt=prompt))

    def begin(self, *words: str, prompt: str = TASK) -> subprocess.Popen[str]:
        """The same, left running."""
        return self.start(*self.words(*words, prompt=prompt))

    def ends(self, child: subprocess.Popen[str]) -> None:
        """Wait for one that was left running to end well."""
        assert child.wait(timeout=SECONDS) == 0, self.said

    # ---------------------------------------------------------------- the session

    def json(self, *words: str) -> Any:
        return json.loads(self.do(*words, "--json"))

    def find(self, name: str = "job") -> SessionInfo | None:
        with relight.open(self.store, create=False) as rl:
            return rl.sessions.find(name)

    def info(self, name: str = "job") -> SessionInfo:
        info = self.find(name)
        assert info is not None
        return info

    def reaches(self, status: str, name: str = "job", seconds: float = SECONDS) -> SessionInfo:
        """Wait until the session stands so."""
        what = f"{name} being {status}"
        found = eventually(lambda: (i := self.find(name)) and i.status == status and i, seconds=seconds, what=what)
        assert isinstance(found, SessionInfo)
        return found

    def after_turn(self, turns: int, name: str = "job") -> int:
        """The last checkpoint whose conversation has so many turns, and no more than that began."""
        found = self.json("checkpoints", name)
        return int([one["seq"] for one in found if one["turns"] == turns and one["kind"] == "message"][-1])

    # ---------------------------------------------------------------- processes

    def processes(self) -> list[int]:
        """Every living process of this store."""
        names = {f"{prefix}{self.store}" for prefix in ("", "sqlite:///")}
        return [pid for pid in living() if environment(pid).get("RELIGHT_STORE") in names]

    def agents(self) -> list[int]:
        """Those that are the agent itself; a child of it that has not called exec yet is none."""
        found = {pid: words(pid) for pid in self.processes() if executable(pid) == str(self.binary)}
        return [pid for pid, given in found.items() if found.get(parent(pid)) != given]

    def marked(self) -> list[int]:
        """Those that were started for a session: the agent and whatever it started."""
        return [pid for pid in self.processes() if "RELIGHT_SESSION" in environment(pid)]

    def the_agent(self) -> int:
        """Wait for the agent's process."""
        return int(eventually(self.agents, seconds=SECONDS, what="an agent")[0])

    def has_written(self, part: str) -> bool:
        """Does the agent's own transcript hold it? Claude writes it a moment after a tool has begun."""
        return any(part in path.read_text(encoding="utf-8") for path in self.home.rglob("*.jsonl"))

    def strike(self, victim: str, child: subprocess.Popen[str]) -> None:
        """kill -9 of the agent, the supervisor, or both at once."""
        pids = [] if victim == "supervisor" else self.agents()
        if victim != "agent":
            child.kill()
        for pid in pids:
            kill(pid)
        if victim != "agent":
            child.wait()

    # ---------------------------------------------------------------- what the model was told

    @property
    def last(self) -> list[Item]:
        return self.model.requests()[-1].items

    def remembers(self, *said: str, request: Request | None = None) -> None:
        """It has everything that was said, exactly one result for each call, and the provider takes it."""
        if refused := [one.problem for one in self.model.requests() if one.problem]:
            raise AssertionError(f"the provider refused: {refused}")
        items = request.items if request is not None else self.last
        assert unpaired(items) == []
        everything = "\n".join(texts(items))
        assert [one for one in said if one not in everything] == []

    def results(self, items: list[Item] | None = None) -> list[tuple[str, str]]:
        """Each shell command and what the model was told about it, in order."""
        reported = []
        for call, result in pairs(items if items is not None else self.last):
            given = call.value if isinstance(call.value, dict) else {}
            asked = given.get("command") or given.get("cmd") or given.get("file_path") or ""
            reported.append((str(asked), str(result.value) if result is not None else ""))
        return reported

    def reported(self, part: str) -> str:
        """What the model was told about the one command that has this in it."""
        [found] = [result for asked, result in self.results() if part in asked]
        return found

    # ---------------------------------------------------------------- dressing the agent

    def dress(self, python: str) -> None:
        """Put a script before the agent that may change its hooks: `python` gets `words` and may call `rewrite(f)`,
        where f maps one hook command to another."""
        start = [str(self.binary), str(self.program.resolve())] if self.kind in ("pi", "gemini") else [str(self.binary)]
        self.program.unlink()
        self.program.write_text(f"#!{sys.executable} -IS\n" + _DRESS.format(python=python, start=start))
        self.program.chmod(0o755)

    def seed_screen(self, cwd: Path | None = None) -> None:
        """What a person has answered before Claude Code shows its prompt at once."""
        approved = {"approved": [real.CLAUDE_KEY[-20:]], "rejected": []}
        trusted = {str((cwd or self.work).resolve()): {"hasTrustDialogAccepted": True}}
        seeded = {**_SCREEN, "customApiKeyResponses": approved, "projects": trusted}
        (self.home / ".claude.json").write_text(json.dumps(seeded))


_DRESS = """\
import json, os, sys
words = sys.argv[1:]

def rewrite(change):
    if "--settings" not in words:
        return
    path = words[words.index("--settings") + 1]
    settings = json.load(open(path))
    for groups in settings["hooks"].values():
        for group in groups:
            for hook in group["hooks"]:
                hook["command"] = change(hook["command"])
    with open(path, "w") as file:
        json.dump(settings, file)

{python}
os.execv({start!r}[0], [*{start!r}, *words])
"""


@contextmanager
def harness(kind: str, base: Path, script: Any, **variables: str) -> Iterator[AgentHarness]:
    """A harness that is cleared at the end."""
    made = AgentHarness(kind, base, script, **variables)
    try:
        yield made
    finally:
        made.close()


def append(line: str, then: str = "") -> dict[str, Any]:
    """A turn that appends a line to log.txt."""
    shell = f"echo {shlex.quote(line)} >> log.txt" + (f"; {then}" if then else "")
    return {"text": f"writes {line}", "calls": [{"shell": shell}]}


def lines(directory: Path, name: str = "log.txt") -> list[str]:
    path = directory / name
    return path.read_text().split() if path.exists() else []


def kill(pid: int) -> None:
    """As nobody expects it; one that is gone already stays gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def begin_alone(s: AgentHarness, prompt: str = TASK) -> None:
    """The agent as its user starts it, without relight."""
    environment = {name: value for name, value in s.environment().items() if not name.startswith("RELIGHT_")}
    done = subprocess.run(
        s.agent(prompt),
        cwd=s.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
