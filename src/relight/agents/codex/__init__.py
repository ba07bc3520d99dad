"""Codex: one rollout (a file of JSON lines) per thread, with the thread's id in its name."""
