"""The Redis store: one server, many machines. Its durability depends on the server's settings, and is reported.

`store.py` implements the port; `scripts/transact.lua` is the one function that writes.
"""
