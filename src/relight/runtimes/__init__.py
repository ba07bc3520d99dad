"""Runtimes: where an agent's process runs. Each implements ports/runtime.py and imports none of the others."""
