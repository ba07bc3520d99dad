"""Queues and workers; below them, the engines that wake a worker."""
