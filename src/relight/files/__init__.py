"""A session's files: capture, compare, restore, undo. Written over ports only."""
