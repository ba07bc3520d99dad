"""Command lines: which are an agent's, what they say, and what starts the same work again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from relight.agents.claude_code.adapter import ClaudeCode
from relight.agents.codex.adapter import Codex
from relight.agents.command import Command
from relight.errors import UsageError
from relight.ports.agent import Ask, Hooks, Launch, Rung, Surroundings

CLAUDE, CODEX = ClaudeCode(), Codex()
ID = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
NOWHERE = Surroundings(directory="/", environment={"HOME": "/nonexistent", "PATH": ""})


def launched(
    agent: ClaudeCode | Codex, command: str, rung: Rung, prompt: str | None = None, native_id: str | None = ID
) -> Launch:
    return agent.launch(
        Ask(command=tuple(command.split()), surroundings=NOWHERE, rung=rung, native_id=native_id, prompt=prompt)
    )


@pytest.mark.parametrize(
    ("command", "task"),
    [
        ("claude", None),
        ("claude hello", "hello"),
        ("claude -p hello", "hello"),
        ("claude hello -p", "hello"),
        ("/opt/bin/claude --print hello", "hello"),
        ("npx -y @anthropic-ai/claude-code@2.1.325 -p hello", "hello"),
        ("npx claude -p hello", "hello"),
        ("npm exec @anthropic-ai/claude-code -- -p hello", "hello"),
        ("pnpm dlx @anthropic-ai/claude-code -p hello", "hello"),
        ("bunx @anthropic-ai/claude-code -p hello", "hello"),
        ("claude --model opus --max-turns 3 -p hello --verbose", "hello"),
        ("claude --model=opus hello", "hello"),
        ("claude -p hello --allowedTools Bash Edit", "hello"),
        ("claude --allowedTools Bash Edit -p hello", "hello"),
        ("claude --add-dir a b -- hello", "hello"),
        ("claude -p --resume", None),
        (f"claude -p --resume {ID} hello", "hello"),
        (f"claude -r {ID}", None),
        ("claude -cp hello", "hello"),
        ("claude --unknown -p hello", "hello"),
        ("claude --unknown value -p hello", "hello"),
        ("claude -p -- --help", "--help"),
        ("claude --dangerously-skip-permissions hello", "hello"),
        ("claude --debug hello", None),
        ("claude --debug=api hello", "hello"),
    ],
)
def test_a_command_of_claude_code_is_understood(command: str, task: str | None) -> None:
    assert CLAUDE.recognises(command.split())
    assert CLAUDE.task_of(command.split()) == task


@pytest.mark.parametrize(
    "command",
    [
        "",
        "claudette -p hello",
        "python claude.py",
        "claude mcp list",
        "claude doctor",
        "claude --version",
        "claude -h",
        "claude -p --no-session-persistence hello",
        "claude --bg hello",
        "npx",
        "npx other-tool claude",
        "echo claude",
        "claude --model",
    ],
)
def test_what_is_no_session_of_claude_code_is_a_plain_command(command: str) -> None:
    assert not CLAUDE.recognises(command.split())


@pytest.mark.parametrize(
    ("command", "native"),
    [
        (f"claude --session-id {ID} -p x", ID),
        (f"claude --session-id={ID} -p x", ID),
        (f"claude --resume {ID} -p x", ID),
        (f"claude -r {ID}", ID),
        (f"claude -r {ID} --fork-session", None),
        (f"claude -r {ID} --fork-session --session-id {OTHER}", OTHER),
        ("claude --resume my-name", None),
        ("claude -p x", None),
    ],
)
def test_the_session_that_a_command_names(command: str, native: str | None) -> None:
    assert CLAUDE.native_id_of(command.split()) == native


@pytest.mark.parametrize(
    ("command", "rung", "prompt", "wanted"),
    [
        ("claude -p hello --model opus", "fresh", None, f"claude --session-id {ID} -p hello --model opus"),
        ("claude", "fresh", None, f"claude --session-id {ID}"),
        ("claude -p hello", "fresh", "other", f"claude --session-id {ID} -p -- other"),
        (f"claude --session-id {OTHER} -p x", "fresh", None, f"claude --session-id {OTHER} -p x"),
        (f"claude -r {OTHER} -p x", "fresh", None, f"claude -r {OTHER} -p x"),
        ("claude -c -p x", "fresh", None, "claude -c -p x"),
        ("claude --add-dir a -- x", "fresh", None, f"claude --session-id {ID} --add-dir a -- x"),
        ("claude hello --model opus", "native", None, f"claude --resume {ID} --model opus"),
        ("claude hello", "native", "more", f"claude --resume {ID} -- more"),
        ("claude -p x --max-turns 3", "native", "more", f"claude --resume {ID} -p --max-turns 3 -- more"),
        (f"claude -p x --session-id {OTHER}", "native", "more", f"claude --resume {ID} -p -- more"),
        (f"claude -r {OTHER} --fork-session -p x", "native", "more", f"claude --resume {ID} -p -- more"),
        ("claude -cp x", "native", "more", f"claude --resume {ID} -p -- more"),
        ("claude -p --allowedTools A B -- x", "native", "more", f"claude --resume {ID} -p --allowedTools A B -- more"),
        ("claude -p --new-flag x", "native", "more", f"claude --resume {ID} -p --new-flag -- more"),
        ("claude -p --new-flag v x", "native", "more", f"claude --resume {ID} -p --new-flag v -- more"),
        ("npx claude -p x", "native", "more", f"npx claude --resume {ID} -p -- more"),
        (
            "claude -p --input-format stream-json --output-format stream-json",
            "native",
            "more",
            f"claude --resume {ID} -p --output-format stream-json -- more",
        ),
        (f"claude -r {OTHER} -p x", "bootstrap", "brief", f"claude --session-id {ID} -p -- brief"),
    ],
)
def test_what_starts_claude_code(command: str, rung: Rung, prompt: str | None, wanted: str) -> None:
    assert launched(CLAUDE, command, rung, prompt).command == tuple(wanted.split())


def test_a_headless_resume_without_a_prompt_says_to_go_on_and_a_screen_needs_none() -> None:
    headless, screen = launched(CLAUDE, "claude -p x", "native"), launched(CLAUDE, "claude x", "native")
    assert (headless.headless, headless.prompt_sent, headless.command[-1]) == (
        True,
        True,
        "Continue where you stopped.",
    )
    assert (screen.headless, screen.prompt_sent, screen.command[-1]) == (False, False, ID)


@pytest.mark.parametrize(("agent", "command"), [(CLAUDE, "claude x"), (CODEX, "codex x")])
def test_an_agent_on_a_screen_is_told_to_go_on_only_where_it_was_cut_off(
    agent: ClaudeCode | Codex, command: str
) -> None:
    def last(unfinished: bool) -> str:
        words = tuple(command.split())
        ask = Ask(command=words, surroundings=NOWHERE, rung="native", native_id=ID, unfinished=unfinished)
        return agent.launch(ask).command[-1]

    assert (last(True), last(False)) == ("Continue where you stopped.", ID)


@pytest.mark.parametrize(
    ("command", "task", "native"),
    [
        ("codex", None, None),
        ("codex hello", "hello", None),
        ("codex exec hello", "hello", None),
        ("codex e hello", "hello", None),
        ("codex exec --json -m o3 -c a=b hello", "hello", None),
        ("codex --model o3 exec hello", "hello", None),
        ("codex exec -", None, None),
        ("codex exec -- --help", "--help", None),
        (f"codex exec resume {ID} hello", "hello", ID),
        (f"codex exec resume --json {ID}", None, ID),
        ("codex exec resume --last hello", "hello", None),
        ("codex exec resume a-name hello", "hello", None),
        (f"codex resume {ID}", None, ID),
        (f"codex fork {ID}", None, None),
        ("npx @openai/codex exec hello", "hello", None),
        ("/opt/codex exec -i a.png -- hello", "hello", None),
    ],
)
def test_a_command_of_codex_is_understood(command: str, task: str | None, native: str | None) -> None:
    assert CODEX.recognises(command.split())
    assert (CODEX.task_of(command.split()), CODEX.native_id_of(command.split())) == (task, native)


@pytest.mark.parametrize(
    "command",
    [
        "codex mcp list",
        "codex login",
        "codex --version",
        "codex exec --ephemeral x",
        "codex exec review",
        "codexx x",
        "",
    ],
)
def test_what_is_no_session_of_codex_is_a_plain_command(command: str) -> None:
    assert not CODEX.recognises(command.split())


@pytest.mark.parametrize(
    ("command", "rung", "prompt", "wanted"),
    [
        ("codex exec --json hello", "fresh", None, "codex exec --json hello"),
        ("codex exec --json hello", "fresh", "other", "codex exec --json -- other"),
        ("codex -m o3 exec hello", "native", "more", f"codex exec -m o3 resume -- {ID} more"),
        ("codex exec -s read-only --json x", "native", "more", f"codex exec -s read-only --json resume -- {ID} more"),
        (f"codex exec resume {OTHER} x", "native", "more", f"codex exec resume -- {ID} more"),
        ("codex exec resume --last x", "native", "more", f"codex exec resume -- {ID} more"),
        ("codex exec -i a.png -- x", "native", "more", f"codex exec resume -- {ID} more"),
        ("codex hello", "native", None, f"codex --no-daemon resume -- {ID}"),
        ("codex --no-alt-screen hello", "native", "more", f"codex --no-daemon --no-alt-screen resume -- {ID} more"),
        (f"codex resume {OTHER}", "bootstrap", "brief", "codex --no-daemon -- brief"),
        ("codex exec x", "bootstrap", "brief", "codex exec -- brief"),
        ("codex --no-daemon hello", "fresh", None, "codex --no-daemon hello"),
    ],
)
def test_what_starts_codex(command: str, rung: Rung, prompt: str | None, wanted: str) -> None:
    assert launched(CODEX, command, rung, prompt).command == tuple(wanted.split())


def test_a_plain_command_is_started_as_it_is() -> None:
    command = ("python", "a b.py", "--prompt", "x")
    assert Command().launch(Ask(command=command, surroundings=NOWHERE, rung="fresh")).command == command
    with pytest.raises(UsageError):
        Command().launch(Ask(command=(), surroundings=NOWHERE, rung="fresh"))


# ---------------------------------------------------------------- hooks


def settings(tmp_path: Path, *more: str, approve: tuple[str, ...] = ()) -> dict[str, object]:
    hooks = Hooks(command=("/opt/re light", "hook", "it's"), file=tmp_path / "ours.json", approve=approve)
    location = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path), "PATH": ""})
    ask = Ask(command=("claude", "-p", "x", *more), surroundings=location, rung="fresh", native_id=ID, hooks=hooks)
    launch = CLAUDE.launch(ask)
    assert launch.command.count("--settings") == 1
    assert launch.command[launch.command.index("--settings") + 1] == str(hooks.file)
    [(path, data)] = launch.files.items()
    assert path == hooks.file
    found = json.loads(data)
    assert isinstance(found, dict)
    return found


def test_hooks_are_added_to_the_users_own_settings(tmp_path: Path) -> None:
    own = {"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    for given in (json.dumps(own), "own.json", str(tmp_path / "own.json")):
        found = settings(tmp_path, "--settings", given)
        assert found["model"] == "opus"
        assert isinstance(found["hooks"], dict)
        assert found["hooks"]["Stop"][0] == own["hooks"]["Stop"][0]  # type: ignore[index]
        [run] = found["hooks"]["Stop"][1]["hooks"]
        assert run["command"] == "'/opt/re light' hook 'it'\"'\"'s'"
    assert (tmp_path / "own.json").read_text() == json.dumps(own)


@pytest.mark.parametrize("given", ["{", "[]", '{"hooks": {"Stop": 7}}', '{"hooks": 7}', "not-there.json"])
def test_settings_that_cannot_be_merged_are_refused_and_not_dropped(given: str, tmp_path: Path) -> None:
    (tmp_path / "[]").write_text("[]")
    with pytest.raises(UsageError):
        settings(tmp_path, "--settings", given)


# ---------------------------------------------------------------- the program behind a script of npm


def test_the_native_binary_behind_a_script_is_started(tmp_path: Path) -> None:
    rooms = tmp_path / "node_modules" / "@openai"
    script = rooms / "codex" / "bin" / "codex.js"
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    binary = rooms / f"codex-{os.uname().sysname.lower()}-{machine}" / "vendor" / "some-triple" / "bin" / "codex"
    for path, data in ((script, b"#!/usr/bin/env node\n"), (binary, b"\x7fELF")):
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        path.chmod(0o755)
    link = tmp_path / "bin" / "codex"
    link.parent.mkdir()
    link.symlink_to(script)
    location = Surroundings(directory="/", environment={"HOME": "/nonexistent", "PATH": str(link.parent)})

    def started(program: str) -> str:
        return CODEX.launch(Ask(command=(program, "exec", "x"), surroundings=location, rung="fresh")).command[0]

    assert started("codex") == str(binary)
    assert started(str(link)) == str(binary)
    binary.unlink()
    assert started("codex") == "codex"
