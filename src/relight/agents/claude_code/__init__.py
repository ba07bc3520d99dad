"""Claude Code: a tree of JSON lines a session, hooks, and ids of our choice."""

from relight.agents.claude_code.adapter import ClaudeCode

__all__ = ["ClaudeCode"]
