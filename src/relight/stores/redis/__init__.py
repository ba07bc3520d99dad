"""The store on Redis: one server, many machines. How durable it is, the server's own settings decide, and we say it.

`store.py` is the front; `scripts/transact.lua` is the one function that writes.
"""
