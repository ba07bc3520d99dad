"""Adapter of Gemini CLI, the coding agent of `@google/gemini-cli`."""
