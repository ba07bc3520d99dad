"""Verbs that start, resume and stop programs."""
