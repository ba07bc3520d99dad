"""Engines that wake workers, and the processes that attend to sessions.

`embedded` needs nothing but the store; `procrastinate` keeps its rows in the same PostgreSQL database. Both keep the
port `engine`, and neither decides anything: the claim does.
"""
