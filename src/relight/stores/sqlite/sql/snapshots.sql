-- Statements about snapshots of workspaces and segments of pools.

-- name: insert_snapshot
-- A step references a snapshot.
INSERT OR REPLACE INTO snapshots (sid, seq, root, pool, id, seal) VALUES (?, ?, ?, ?, ?, ?)

-- name: read_snapshots
-- The snapshots a session's steps reference. Text comes as bytes, so that a flipped one can be read at all.
SELECT sid, seq, CAST(root AS BLOB), CAST(pool AS BLOB), CAST(id AS BLOB), seal FROM snapshots WHERE sid = ?

-- name: read_snapshots_of_pool
-- The snapshots in a pool that some step references.
SELECT sid, seq, CAST(root AS BLOB), CAST(pool AS BLOB), CAST(id AS BLOB), seal FROM snapshots WHERE pool = ?

-- name: delete_snapshots_of_step
-- Delete the snapshots of one step.
DELETE FROM snapshots WHERE sid = ? AND seq = ?

-- name: delete_snapshot
-- Delete the snapshot of one root at one step.
DELETE FROM snapshots WHERE sid = ? AND seq = ? AND root = ?

-- name: delete_snapshots
-- Delete all snapshots of a session.
DELETE FROM snapshots WHERE sid = ?

-- name: insert_segment
-- Register a segment: steps may reference it from now on.
INSERT OR IGNORE INTO segments (pool, name, seal) VALUES (?, ?, ?)

-- name: delete_segment
-- Unregister a segment: no step may reference it from now on.
DELETE FROM segments WHERE pool = ? AND name = ?

-- name: read_segments
-- The segments of a pool.
SELECT CAST(pool AS BLOB), CAST(name AS BLOB), seal FROM segments WHERE pool = ?

-- name: has_segment
-- Is this segment registered?
SELECT 1 FROM segments WHERE pool = ? AND name = ?

-- name: read_pools
-- Every pool that has a segment or a snapshot.
SELECT CAST(pool AS BLOB) FROM segments UNION SELECT CAST(pool AS BLOB) FROM snapshots
