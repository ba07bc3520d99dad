"""Engines that wake workers, one module or package each."""
