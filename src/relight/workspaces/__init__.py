"""Siblings that keep the workspace port: `tree` captures a directory by content."""
