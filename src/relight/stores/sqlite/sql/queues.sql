-- Statements about queues of sessions and small records.

-- name: put_waiting
-- Insert or move a session's queue position.
INSERT OR REPLACE INTO waiting (sid, line, priority, since_us, id, wake_us) VALUES (?, ?, ?, ?, ?, ?)

-- name: delete_waiting
-- Remove a session from its queue.
DELETE FROM waiting WHERE sid = ?

-- name: find_waiting
-- A session's head.
SELECT CAST(line AS BLOB), priority, since_us, CAST(id AS BLOB), wake_us FROM waiting WHERE sid = ?

-- name: lines
-- The queues that are not empty, by jumping from one to the next in each of the two indexes.
WITH RECURSIVE
    ready (line) AS (
        SELECT min(line) FROM waiting WHERE wake_us IS NULL
        UNION ALL
        SELECT (SELECT min(w.line) FROM waiting AS w WHERE w.line > ready.line AND w.wake_us IS NULL)
        FROM ready WHERE ready.line IS NOT NULL
    ),
    later (line) AS (
        SELECT min(line) FROM waiting WHERE wake_us IS NOT NULL
        UNION ALL
        SELECT (SELECT min(w.line) FROM waiting AS w WHERE w.line > later.line AND w.wake_us IS NOT NULL)
        FROM later WHERE later.line IS NOT NULL
    )
SELECT CAST(line AS BLOB) FROM ready WHERE line IS NOT NULL
UNION
SELECT CAST(line AS BLOB) FROM later WHERE line IS NOT NULL

-- name: first_ready
-- The first of a queue, in its order.
SELECT priority, since_us, CAST(id AS BLOB), wake_us FROM waiting
WHERE line = ? AND wake_us IS NULL ORDER BY priority DESC, since_us, id LIMIT ?

-- name: first_woken
-- Those of a queue that came due first.
SELECT priority, since_us, CAST(id AS BLOB), wake_us FROM waiting
WHERE line = ? AND wake_us IS NOT NULL AND wake_us <= ? ORDER BY wake_us, id LIMIT ?

-- name: find_record
-- One small record.
SELECT record FROM kept WHERE kind = ? AND name = ?

-- name: read_records
-- All of a kind.
SELECT CAST(name AS BLOB), record FROM kept WHERE kind = ? ORDER BY name

-- name: put_record
-- Write or replace one.
INSERT OR REPLACE INTO kept (kind, name, record) VALUES (?, ?, ?)

-- name: delete_record
-- Remove one.
DELETE FROM kept WHERE kind = ? AND name = ?
