-- The journal's statements: what a commit reads and writes, and how steps and labels are read back.

-- name: begin
-- Take the write lock now, so that what is read next cannot change before it is written.
BEGIN IMMEDIATE

-- name: commit
-- From here on it is durable: synchronous=FULL.
COMMIT

-- name: rollback
-- Undo everything since begin.
ROLLBACK

-- name: find_sid
-- A session's number inside this file.
SELECT sid FROM sessions WHERE id = ?

-- name: read_head
-- A session's head.
SELECT CAST(record AS BLOB) FROM heads WHERE sid = ?

-- name: last_body
-- The highest body id: the next body gets the one after it.
SELECT max(id) FROM bodies

-- name: insert_body
-- One body with the id of its step, or several with as many rows of placeholders.
INSERT INTO bodies (id, data, step) VALUES
(?, ?, ?)

-- name: insert_step
-- One step, or several with as many rows of placeholders. A step that is there already means that head and journal
-- disagree.
INSERT INTO steps
    (id, body, size_bytes, kind, at_us, attempt, base, since, message_count, turns, open, label, key, digest) VALUES
(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_head
-- Write a head; several with as many rows of placeholders.
INSERT OR REPLACE INTO heads (record, sid) VALUES
(?, ?)

-- name: set_status
-- Only when it changes, or a step is committed after the end; the counts follow by trigger.
UPDATE sessions SET status = ?, ended_us = ?, ended_steps = ?, ended_cost = ? WHERE sid = ?

-- name: read_steps
-- Steps in order, by the range of their ids. Text comes as bytes, so that a flipped one can be read at all; a body that
-- is gone comes as NULL.
SELECT seq, size_bytes, CAST(kind AS BLOB), at_us, attempt, base, since, message_count, turns, open,
       CAST(label AS BLOB), key, digest, bodies.data
FROM steps LEFT JOIN bodies ON bodies.id = steps.body
WHERE steps.id > ? AND steps.id <= ? ORDER BY steps.id

-- name: next_seq
-- The number of the next step, where its row itself cannot be read.
SELECT seq FROM steps WHERE id > ? AND id <= ? ORDER BY id LIMIT 1

-- name: find_key
-- Has the writer with this key committed? Few rows are read: those after the last seq it knows.
SELECT seq, key FROM steps WHERE id > ? AND id <= ? ORDER BY id

-- name: read_checkpoints
-- The same rows without bodies.
SELECT seq, CAST(kind AS BLOB), at_us, base, turns, message_count, size_bytes
FROM steps WHERE id > ? AND id <= ? ORDER BY id

-- name: count_change
-- Count a change other than a step; returns the new count.
UPDATE changes SET n = n + 1 RETURNING n

-- name: insert_label
-- Give a label; the newest has the greatest id.
INSERT INTO checkpoint_labels (sid, seq, label, seal) VALUES (?, ?, ?, ?)

-- name: delete_checkpoint_labels
-- Delete a checkpoint's labels.
DELETE FROM checkpoint_labels WHERE sid = ? AND seq = ?

-- name: find_label
-- The checkpoint a label was last given to, up to a seq where one is given.
SELECT seq, CAST(label AS BLOB), seal FROM checkpoint_labels
WHERE sid = ?1 AND label = ?2 AND (?3 IS NULL OR seq <= ?3) ORDER BY id DESC LIMIT 1

-- name: read_labels
-- All labels of a session, oldest first.
SELECT seq, CAST(label AS BLOB), seal FROM checkpoint_labels WHERE sid = ? ORDER BY id
