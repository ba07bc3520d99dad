-- The statements of ours; Procrastinate's own come with it.

-- name: lock
-- One at a time makes what is missing.
SELECT pg_advisory_xact_lock(7235419201)

-- name: here
-- For this transaction only, so that it works behind a pooler.
SELECT set_config('search_path', 'relight_fleet, pg_temp', true)

-- name: make_schema
-- A place of its own: another application's Procrastinate in this database is left alone.
CREATE SCHEMA IF NOT EXISTS relight_fleet

-- name: is_there
-- Has it been made? Read from the catalog: to_regclass may remember that it had not been, from before a lock was waited for.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
               WHERE n.nspname = 'relight_fleet' AND c.relname = 'engine')

-- name: versions
-- By whom.
SELECT procrastinate, ours FROM relight_fleet.engine

-- name: set_versions
-- By this one.
INSERT INTO relight_fleet.engine (procrastinate, ours) VALUES (%s, %s)
ON CONFLICT (only_one) DO UPDATE SET procrastinate = excluded.procrastinate, ours = excluded.ours

-- name: listen
-- A hint that a row was written; behind a pooler it never comes, and then it is looked anyway.
LISTEN procrastinate_any_queue_v1

-- name: offer_again
-- A session that still stands in line is offered later.
SELECT relight_fleet.offer(w.id, w.line, w.priority, clock_timestamp() + make_interval(secs => %s))
FROM relight.waiting AS w WHERE w.id = %s

-- name: taken_by_others
-- Rows that another worker took a while ago, and their sessions.
SELECT j.id, j.args ->> 'session' FROM relight_fleet.procrastinate_jobs AS j
WHERE j.status = 'doing' AND j.task_name = 'relight.session' AND j.worker_id IS DISTINCT FROM %s
  AND EXISTS (SELECT 1 FROM relight_fleet.procrastinate_events AS e
              WHERE e.job_id = j.id AND e.type = 'started' AND e.at < clock_timestamp() - make_interval(secs => %s))
ORDER BY j.id LIMIT %s
