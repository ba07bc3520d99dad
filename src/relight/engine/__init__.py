"""Use cases: what a user can do, written over ports only."""
