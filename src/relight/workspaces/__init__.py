"""Directories captured by content: walk, compare, hash what changed, store it once, bring it back."""
