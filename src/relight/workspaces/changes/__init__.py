"""Finding what changed in a workspace since its last snapshot, and storing it."""
