"""Claude Code: one transcript per session, a tree of JSON lines; hooks; session ids of our choice."""

from relight.agents.claude_code.adapter import ClaudeCode

__all__ = ["ClaudeCode"]
