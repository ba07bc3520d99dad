"""Decisions about files: when to capture, how to restore, what to undo."""
