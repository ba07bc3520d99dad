"""Hooks: the client that an agent runs as its hook command, and the supervisor's socket that it connects to."""
