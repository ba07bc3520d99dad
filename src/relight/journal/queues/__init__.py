"""Decisions about queues: order, limits, takeover."""
