"""Adapter of pi, the coding agent of `@mariozechner/pi-coding-agent`."""
