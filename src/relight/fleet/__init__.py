"""Queues, workers, and the wakeup engines that tell a worker about queued sessions."""
