"""Codex: a rollout of JSON lines a thread, found by the id in its name."""

from relight.agents.codex.adapter import Codex

__all__ = ["Codex"]
