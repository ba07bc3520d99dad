"""Verbs that return to a checkpoint: fork, rewind, restore, undo."""
