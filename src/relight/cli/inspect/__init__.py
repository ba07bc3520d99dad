"""Verbs that show sessions, checkpoints and files; they change nothing but labels."""
