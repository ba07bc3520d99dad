-- Statements about queues of sessions and small records.

-- name: put_waiting
-- Insert or move a session's queue position.
INSERT INTO relight.waiting (sid, line, priority, since_us, id, wake_us) VALUES (%s, %b, %s, %s, %b, %s)
ON CONFLICT (sid) DO UPDATE SET line = excluded.line, priority = excluded.priority, since_us = excluded.since_us,
                                id = excluded.id, wake_us = excluded.wake_us

-- name: delete_waiting
-- Remove a session from its queue.
DELETE FROM relight.waiting WHERE sid = %s

-- name: find_waiting
-- A session's head.
SELECT line, priority, since_us, id, wake_us FROM relight.waiting WHERE sid = %s

-- name: lines
-- The queues that are not empty, by jumping from one to the next in each of the two indexes.
WITH RECURSIVE
    ready (line) AS (
        (SELECT line FROM relight.waiting WHERE wake_us IS NULL ORDER BY line LIMIT 1)
        UNION ALL
        SELECT (SELECT w.line FROM relight.waiting AS w WHERE w.line > ready.line AND w.wake_us IS NULL
                ORDER BY w.line LIMIT 1)
        FROM ready WHERE ready.line IS NOT NULL
    ),
    later (line) AS (
        (SELECT line FROM relight.waiting WHERE wake_us IS NOT NULL ORDER BY line LIMIT 1)
        UNION ALL
        SELECT (SELECT w.line FROM relight.waiting AS w WHERE w.line > later.line AND w.wake_us IS NOT NULL
                ORDER BY w.line LIMIT 1)
        FROM later WHERE later.line IS NOT NULL
    )
SELECT line FROM ready WHERE line IS NOT NULL
UNION
SELECT line FROM later WHERE line IS NOT NULL

-- name: first_waiting
-- The first of a queue in its order, and those that came due first. The time is that of the statement: a volatile one
-- while it runs could not be state up in an index.
(SELECT priority, since_us, id, wake_us FROM relight.waiting
 WHERE line = %(line)b AND wake_us IS NULL ORDER BY priority DESC, since_us, id LIMIT %(limit)s)
UNION ALL
(SELECT priority, since_us, id, wake_us FROM relight.waiting
 WHERE line = %(line)b AND wake_us IS NOT NULL
   AND wake_us <= coalesce(%(now_us)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
 ORDER BY wake_us, id LIMIT %(limit)s)

-- name: read_head
-- A session's head, without a lock.
SELECT record FROM relight.heads WHERE sid = (SELECT sid FROM relight.sessions WHERE id = %b)

-- name: find_record
-- One small record.
SELECT record FROM relight.kept WHERE kind = %t AND name = %b

-- name: reserve_record
-- An empty record, so that there is a row to lock.
INSERT INTO relight.kept (kind, name, record) VALUES (%t, %b, '') ON CONFLICT DO NOTHING

-- name: lock_record
-- One small record, row-locked until this transaction ends.
SELECT record FROM relight.kept WHERE kind = %t AND name = %b FOR UPDATE

-- name: read_records
-- All of a kind.
SELECT name, record FROM relight.kept WHERE kind = %t ORDER BY name

-- name: put_record
-- Write or replace one.
INSERT INTO relight.kept (kind, name, record) VALUES (%t, %b, %b)
ON CONFLICT (kind, name) DO UPDATE SET record = excluded.record

-- name: delete_record
-- Remove one.
DELETE FROM relight.kept WHERE kind = %t AND name = %b
