"""Verbs about the store: remove, verify, export, import, serve, migrate, doctor."""
