-- The journal's statements: what a commit reads and writes, and how steps and labels are read back.

-- name: settle_transaction
-- For this transaction only, so that it works behind a pooler: durable when it returns, and nobody is waited for, or
-- keeps others waiting, for ever.
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                                        ELSE current_setting('synchronous_commit') END, true),
       set_config('lock_timeout', '30s', true), set_config('idle_in_transaction_session_timeout', '30s', true)

-- name: lock_head
-- A session's number and where it stands; nobody else moves it until this transaction ends.
SELECT sid, record, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM relight.heads WHERE sid = (SELECT sid FROM relight.sessions WHERE id = %s) FOR UPDATE

-- name: commit_step
-- One step by what it was planned on; the server's time, or NULL where the head has moved.
SELECT relight.commit_step(%s::bigint, %b, %b, %s::bigint, %s::bigint, %s::bigint, %s::bigint, %s::bigint, %s::bigint,
                           %s::integer, %t, %b, %b, %b, %b, %b, %t, %b)

-- name: commit_steps
-- Several in one transaction: the same for each.
SELECT relight.commit_steps(%b, %b)

-- name: insert_step
-- A step that was committed elsewhere, as it is.
INSERT INTO relight.steps (sid, seq, at_us, base, since, message_count, turns, attempt, kind, key, digest, open, label,
                           body, size_bytes)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %t, %b, %b, %b, %b, %b, %s)

-- name: insert_head
-- Where a new session stands.
INSERT INTO relight.heads (sid, record) VALUES (%s, %b)

-- name: put_head
-- Where a session stands from now on, also where its row was lost.
INSERT INTO relight.heads (sid, record) VALUES (%s, %b) ON CONFLICT (sid) DO UPDATE SET record = excluded.record

-- name: set_status
-- Only when it changes.
UPDATE relight.sessions SET status = %t WHERE sid = %s AND status <> %t

-- name: lock_sid
-- The number a session goes by in this store; it cannot be deleted until this transaction ends.
SELECT sid FROM relight.sessions WHERE id = %s FOR KEY SHARE

-- name: find_sid
-- The number a session goes by in this store.
SELECT sid FROM relight.sessions WHERE id = %s

-- name: read_steps
-- A batch of steps in order: so many rows, and no more bytes than fit, but for the first.
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
