"""Coding agents, one room each. They know the port, never one another; what they share lies in `native`."""
