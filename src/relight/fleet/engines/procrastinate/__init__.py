"""Procrastinate as the wakeup engine: jobs in the store's own PostgreSQL database, in a separate schema.

A trigger on the queue rows inserts a job in the same transaction that queues a session, through whichever entry point
that happens. A job carries only the session's id, is for one attempt, and is never retried: a requeued session gets a
new job. Jobs left open by dead workers are closed by the sweep of ours.
"""
