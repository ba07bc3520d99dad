"""Decisions: pure functions from values to values. No I/O, no clock, no database."""
