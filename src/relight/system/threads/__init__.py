"""Threads beside the caller's: those that run store calls, and those that run a user's functions."""
