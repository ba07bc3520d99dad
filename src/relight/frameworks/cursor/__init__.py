"""Cursor SDK adapter: local agents, runs, run events and checkpoints are stored in relight sessions.

with relight.open() as rl:
    local = LocalAgentOptions(cwd=".", store=LocalAgentStoreConfig(type="custom"))
    client = Client.launch_bridge(local=local, store_handler=RelightAgentStore(rl))
"""

from __future__ import annotations

from relight.errors import MissingExtra

try:
    import cursor_sdk as _sdk
except ImportError as error:
    if error.name is None or not error.name.startswith("cursor_sdk"):
        raise
    raise MissingExtra("cursor", needed_for="a store for the Cursor SDK") from None

from relight.frameworks.cursor.store import RelightAgentStore

del _sdk
__all__ = ["RelightAgentStore"]
