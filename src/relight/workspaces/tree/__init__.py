"""A directory captured by content: walk, compare, hash what changed, store it once, write the manifest."""
