"""Programs and coding agents that relight starts, observes, restarts and stops."""
