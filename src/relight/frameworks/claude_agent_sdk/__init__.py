"""Claude Agent SDK adapter: its transcripts are relight sessions.

with relight.open() as rl:
    options = ClaudeAgentOptions(session_store=RelightSessionStore(rl), session_store_flush="eager")
"""

from __future__ import annotations

from relight.errors import MissingExtra

try:
    import claude_agent_sdk as _sdk
except ImportError as error:
    if error.name is None or not error.name.startswith("claude_agent_sdk"):
        raise
    raise MissingExtra("claude-agent-sdk", needed_for="a session store for the Claude Agent SDK") from None

from relight.frameworks.claude_agent_sdk.store import RelightSessionStore

del _sdk
__all__ = ["RelightSessionStore"]
