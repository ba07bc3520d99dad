"""Decisions about files: what is captured when, how a restore acts, what undo takes back."""
