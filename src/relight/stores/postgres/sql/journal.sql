-- The journal's statements: what a commit reads and writes, and how steps and labels are read back.

-- name: settle_transaction
-- For this transaction only, so that it works behind a pooler: durable when it returns, and bounded waits for locks and
-- clients.
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                                        ELSE current_setting('synchronous_commit') END, true),
       set_config('lock_timeout', '30s', true), set_config('idle_in_transaction_session_timeout', '30s', true)

-- name: lock_head
-- A session's number and head, row-locked until this transaction ends.
SELECT sid, record, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM relight.heads WHERE sid = (SELECT sid FROM relight.sessions WHERE id = %s) FOR UPDATE

-- name: commit_step
-- Write one step if the head is unchanged (compare-and-set); returns the server's time, or NULL if the head has moved.
SELECT relight.commit_step(%s::bigint, %b, %b, %s::bigint, %s::bigint, %s::bigint, %s::bigint, %s::bigint, %s::bigint,
                           %s::integer, %t, %b, %b, %b, %b, %b, %t, %b)

-- name: commit_steps
-- The same for several steps in one transaction.
SELECT relight.commit_steps(%b, %b)

-- name: insert_step
-- An imported step, unchanged; it is not in the index of words yet.
WITH step AS (
    INSERT INTO relight.steps (sid, seq, at_us, base, since, message_count, turns, attempt, kind, key, digest, open, label,
                               body, size_bytes)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %t, %b, %b, %b, %b, %b, %s) RETURNING sid, seq)
INSERT INTO relight.unindexed (sid, seq) SELECT sid, seq FROM step

-- name: insert_head
-- The head of a new session.
INSERT INTO relight.heads (sid, record) VALUES (%s, %b)

-- name: put_head
-- Write a head, also if its row was lost.
INSERT INTO relight.heads (sid, record) VALUES (%s, %b) ON CONFLICT (sid) DO UPDATE SET record = excluded.record

-- name: set_status
-- Only when it changes.
UPDATE relight.sessions SET status = %t WHERE sid = %s AND status <> %t

-- name: lock_sid
-- A session's number, locked against deletion until this transaction ends.
SELECT sid FROM relight.sessions WHERE id = %s FOR KEY SHARE

-- name: lock_identity
-- A session's number, locked against other changes of its identity until this transaction ends.
SELECT sid FROM relight.sessions WHERE id = %s FOR NO KEY UPDATE

-- name: find_sid
-- A session's number in this store.
SELECT sid FROM relight.sessions WHERE id = %s

-- name: read_steps
-- A batch of steps in order, limited by rows and by bytes (the first is always included).
SELECT seq, size_bytes, kind, at_us, attempt, base, since, message_count, turns, open, label, key, digest, body
FROM (SELECT *, sum(size_bytes) OVER (ORDER BY seq) - size_bytes AS bytes_before
      FROM (SELECT * FROM relight.steps WHERE sid = %s AND seq > %s AND seq <= %s ORDER BY seq LIMIT %s) AS page) AS sized
WHERE bytes_before < %s ORDER BY seq

-- name: find_key
-- The seqs and keys after the last step that a writer knows.
SELECT seq, key FROM relight.steps WHERE sid = %s AND seq > %s ORDER BY seq

-- name: read_checkpoints
-- Steps without bodies.
SELECT seq, kind, at_us, base, turns, message_count, size_bytes
FROM relight.steps WHERE sid = %s AND seq > %s AND seq <= %s ORDER BY seq

-- name: insert_label
-- Give a label; the newest has the greatest id.
INSERT INTO relight.checkpoint_labels (sid, seq, label, seal) VALUES (%s, %s, %b, %b)

-- name: delete_checkpoint_labels
-- Delete a checkpoint's labels.
DELETE FROM relight.checkpoint_labels WHERE sid = %s AND seq = %s

-- name: find_label
-- The checkpoint a label was last given to, among those up to a seq.
SELECT seq, label, seal FROM relight.checkpoint_labels
WHERE sid = %s AND label = %b AND seq <= %s ORDER BY id DESC LIMIT 1

-- name: read_labels
-- All labels of a session, oldest first.
SELECT seq, label, seal FROM relight.checkpoint_labels WHERE sid = %s ORDER BY id
