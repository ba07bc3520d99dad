"""Codex: one rollout (a file of JSON lines) per thread, with the thread's id in its name."""

from relight.agents.codex.adapter import Codex

__all__ = ["Codex"]
