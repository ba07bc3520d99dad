"""The built-in coding agents. An agent is a folder here and an entry in this table; no other package names it.

The order is that in which a command is offered to them.
"""

from __future__ import annotations

from typing import Final

from relight.ports.registration import Registration

BUILT_IN: Final[dict[str, Registration]] = {
    "claude": Registration(
        adapter="relight.agents.claude_code.adapter:ClaudeCode",
        format="relight.agents.claude_code.format:CLAUDE_CODE",
        failures="relight.agents.claude_code.failures",
        programs=("claude",),
        aliases=("claude_code", "claude-code", "claude_agent_sdk"),
        headless=("claude", "-p"),
    ),
    "codex": Registration(
        adapter="relight.agents.codex.adapter:Codex",
        format="relight.agents.codex.format:CODEX",
        failures="relight.agents.codex.failures",
        programs=("codex",),
        services=(("app-server", "--listen"), ("app-server", "daemon")),
        headless=("codex", "exec"),
    ),
    "pi": Registration(
        adapter="relight.agents.pi.adapter:Pi",
        format="relight.agents.pi.format:PI",
        failures="relight.agents.pi.failures",
        programs=("pi",),
        headless=("pi", "-p"),
    ),
    "opencode": Registration(
        adapter="relight.agents.opencode.adapter:Opencode",
        format="relight.agents.opencode.format:OPENCODE",
        failures="relight.agents.opencode.failures",
        programs=("opencode",),
        headless=("opencode", "run"),
    ),
    "gemini": Registration(
        adapter="relight.agents.gemini.adapter:Gemini",
        format="relight.agents.gemini.format:GEMINI_CLI",
        failures="relight.agents.gemini.failures",
        programs=("gemini",),
        aliases=("gemini_cli",),
        headless=("gemini", "-p"),
    ),
}
COMMAND: Final = "relight.agents.command:Command"
"""the adapter of every other program"""
