"""Doors for agent frameworks: each keeps its framework's own store protocol on relight. None knows another."""
