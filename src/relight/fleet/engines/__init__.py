"""Wakeup engines, one module or package each."""
