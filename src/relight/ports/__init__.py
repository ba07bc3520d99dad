"""Promises: the seams behind which stores, clocks, processes and workspaces live. Protocols only."""
