"""Procrastinate as the engine: its rows lie in the same database as the sessions, in a schema of their own.

A trigger on the lines of queued sessions writes a row in the transaction that puts a session in line, whoever does so:
library, command line, server or supervisor. The row carries only the session's id. A row is for one attempt and is
never tried again: a session that is put back in line gets a new one. What dead workers left open is closed by ours,
which sweep from their own loop.
"""
