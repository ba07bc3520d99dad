-- The statements about snapshots of workspaces and the segments they lie in.

-- name: insert_snapshot
-- A step names a snapshot.
INSERT OR REPLACE INTO snapshots (sid, seq, root, pool, id, seal) VALUES (?, ?, ?, ?, ?, ?)

-- name: read_snapshots
-- The snapshots a session's steps name. Text comes as bytes, so that a flipped one can be read at all.
SELECT sid, seq, CAST(root AS BLOB), CAST(pool AS BLOB), CAST(id AS BLOB), seal FROM snapshots WHERE sid = ?

-- name: read_snapshots_of_pool
-- The snapshots in a pool that some step names.
SELECT sid, seq, CAST(root AS BLOB), CAST(pool AS BLOB), CAST(id AS BLOB), seal FROM snapshots WHERE pool = ?

-- name: delete_snapshots_of_step
-- Let the snapshots of one step go.
DELETE FROM snapshots WHERE sid = ? AND seq = ?

-- name: delete_snapshot
-- Let the snapshot of one root at one step go.
DELETE FROM snapshots WHERE sid = ? AND seq = ? AND root = ?

-- name: delete_snapshots
-- Let all snapshots of a session go.
DELETE FROM snapshots WHERE sid = ?

-- name: insert_segment
-- A segment may be relied on.
INSERT OR IGNORE INTO segments (pool, name, seal) VALUES (?, ?, ?)

-- name: delete_segment
-- A segment may not be relied on any more.
DELETE FROM segments WHERE pool = ? AND name = ?

-- name: read_segments
-- The segments of a pool.
SELECT CAST(pool AS BLOB), CAST(name AS BLOB), seal FROM segments WHERE pool = ?

-- name: has_segment
-- May this segment be relied on?
SELECT 1 FROM segments WHERE pool = ? AND name = ?

-- name: read_pools
-- Every pool that has a segment or a snapshot.
SELECT CAST(pool AS BLOB) FROM segments UNION SELECT CAST(pool AS BLOB) FROM snapshots
