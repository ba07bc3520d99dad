-- Our own statements; Procrastinate's come with the package.

-- name: lock
-- Serialises installation.
SELECT pg_advisory_xact_lock(7235419201)

-- name: here
-- Sets the search path for this transaction only, so that it works behind a pooler.
SELECT set_config('search_path', 'relight_fleet, pg_temp', true)

-- name: make_schema
-- A separate schema: another application's Procrastinate in this database is not touched.
CREATE SCHEMA IF NOT EXISTS relight_fleet

-- name: is_there
-- Whether it is installed. From the catalog: to_regclass may return a result cached before we waited for the lock.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
               WHERE n.nspname = 'relight_fleet' AND c.relname = 'engine')

-- name: versions
-- The installed versions.
SELECT procrastinate, ours FROM relight_fleet.engine

-- name: set_versions
-- Records the installed versions.
INSERT INTO relight_fleet.engine (procrastinate, ours) VALUES (%s, %s)
ON CONFLICT (only_one) DO UPDATE SET procrastinate = excluded.procrastinate, ours = excluded.ours

-- name: listen
-- Notifications about new jobs; behind a pooler they never come, and the engine polls anyway.
LISTEN procrastinate_any_queue_v1

-- name: offer_again
-- Offers a session that is still queued again later.
SELECT relight_fleet.offer(w.id, w.line, w.priority, clock_timestamp() + make_interval(secs => %s))
FROM relight.waiting AS w WHERE w.id = %s

-- name: taken_by_others
-- Jobs that another worker fetched a while ago, and their sessions.
SELECT j.id, j.args ->> 'session' FROM relight_fleet.procrastinate_jobs AS j
WHERE j.status = 'doing' AND j.task_name = 'relight.session' AND j.worker_id IS DISTINCT FROM %s
  AND EXISTS (SELECT 1 FROM relight_fleet.procrastinate_events AS e
              WHERE e.job_id = j.id AND e.type = 'started' AND e.at < clock_timestamp() - make_interval(secs => %s))
ORDER BY j.id LIMIT %s
