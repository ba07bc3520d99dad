"""Ports: the protocols that stores, clocks, runtimes, agents and workspaces implement, with what each guarantees."""
