"""Verbs that answer a session that waits for a person."""
