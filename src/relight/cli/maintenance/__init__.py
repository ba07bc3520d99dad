"""Verbs that keep a store well: remove, verify, move, serve."""
