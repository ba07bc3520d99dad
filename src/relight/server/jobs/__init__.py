"""Background jobs of a server: housekeeping rounds, daily upkeep of the store, callbacks."""
