"""Workspaces: directories that are captured into snapshots by content, and restored from them."""
