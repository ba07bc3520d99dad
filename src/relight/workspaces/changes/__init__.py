"""What changed since the last snapshot: watch, walk, compare, read."""
