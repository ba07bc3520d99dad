"""Adapter of opencode, the coding agent of `opencode-ai`; its sessions are rows of an SQLite database."""
