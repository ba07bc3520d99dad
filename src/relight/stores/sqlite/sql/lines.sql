-- The statements about lines of queued sessions and the small records beside them.

-- name: put_waiting
-- A session stands here from now on.
INSERT OR REPLACE INTO waiting (sid, line, priority, since_us, id, wake_us) VALUES (?, ?, ?, ?, ?, ?)

-- name: delete_waiting
-- It stands in no line.
DELETE FROM waiting WHERE sid = ?

-- name: find_waiting
-- Where a session stands.
SELECT CAST(line AS BLOB), priority, since_us, CAST(id AS BLOB), wake_us FROM waiting WHERE sid = ?

-- name: lines
-- The lines in which somebody stands, by jumping from one to the next in each of the two indexes.
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
-- The first of a line, in its order.
SELECT priority, since_us, CAST(id AS BLOB), wake_us FROM waiting
WHERE line = ? AND wake_us IS NULL ORDER BY priority DESC, since_us, id LIMIT ?

-- name: first_woken
-- Those of a line whose time came first.
SELECT priority, since_us, CAST(id AS BLOB), wake_us FROM waiting
WHERE line = ? AND wake_us IS NOT NULL AND wake_us <= ? ORDER BY wake_us, id LIMIT ?

-- name: find_kept
-- One small record.
SELECT record FROM kept WHERE kind = ? AND name = ?

-- name: read_kept
-- All of a kind.
SELECT CAST(name AS BLOB), record FROM kept WHERE kind = ? ORDER BY name

-- name: put_kept
-- Write one in the place of the one before.
INSERT OR REPLACE INTO kept (kind, name, record) VALUES (?, ?, ?)

-- name: delete_kept
-- Remove one.
DELETE FROM kept WHERE kind = ? AND name = ?
