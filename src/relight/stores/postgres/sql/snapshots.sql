-- Statements about snapshots of workspaces and segments of pools.

-- name: insert_snapshot
-- A step references a snapshot.
INSERT INTO relight.snapshots (sid, seq, root, pool, id, seal) VALUES (%s, %s, %b, %b, %b, %b)
ON CONFLICT (sid, seq, root) DO UPDATE SET pool = excluded.pool, id = excluded.id, seal = excluded.seal

-- name: read_snapshots
-- The snapshots a session's steps reference.
SELECT sid, seq, root, pool, id, seal FROM relight.snapshots WHERE sid = %s

-- name: read_snapshots_of_pool
-- The snapshots in a pool that steps of other sessions than these reference.
SELECT sid, seq, root, pool, id, seal FROM relight.snapshots
WHERE pool = %b AND sid NOT IN (SELECT sid FROM relight.sessions WHERE id = ANY(%s::bytea[]))

-- name: delete_snapshots_of_step
-- Delete the snapshots of one step.
DELETE FROM relight.snapshots WHERE sid = %s AND seq = %s

-- name: delete_snapshot
-- Delete the snapshot of one root at one step.
DELETE FROM relight.snapshots WHERE sid = %s AND seq = %s AND root = %b

-- name: insert_segment
-- Register a segment: steps may reference it from now on.
INSERT INTO relight.segments (pool, name, seal) VALUES (%b, %b, %b) ON CONFLICT DO NOTHING

-- name: delete_segments
-- Unregister segments. Waits for transactions that commit a step that references one.
DELETE FROM relight.segments WHERE pool = %b AND name = ANY(%s::bytea[])

-- name: read_segments
-- The segments of a pool.
SELECT pool, name, seal FROM relight.segments WHERE pool = %b

-- name: lock_segments
-- Lock the rows of these segments until this transaction ends; returns those that exist.
SELECT name FROM relight.segments WHERE pool = %b AND name = ANY(%s::bytea[]) ORDER BY name FOR KEY SHARE

-- name: read_pools
-- Every pool that has a segment or a snapshot.
SELECT pool FROM relight.segments UNION SELECT pool FROM relight.snapshots
