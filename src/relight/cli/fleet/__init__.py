"""Verbs for queues and workers."""
