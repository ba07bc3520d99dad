-- Snapshots of workspaces: which steps name them, and which segments of content may still be relied on.
-- Every statement can be run again on a database that has it already.

-- The snapshots taken with a step. Sealed, because sweeping trusts them: a snapshot nobody names is removed.
CREATE TABLE IF NOT EXISTS snapshots (
    sid  INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    root TEXT    NOT NULL,
    pool TEXT    NOT NULL,
    id   TEXT    NOT NULL,
    seal BLOB    NOT NULL,
    PRIMARY KEY (sid, seq, root)
) STRICT, WITHOUT ROWID;

-- What a pool must keep.
CREATE INDEX IF NOT EXISTS snapshots_pool ON snapshots (pool);

-- One row for every segment of a pool. Sweeping removes the row first: a step that relies on the segment is refused
-- from then on. Sealed like the others.
CREATE TABLE IF NOT EXISTS segments (
    pool TEXT NOT NULL,
    name TEXT NOT NULL,
    seal BLOB NOT NULL,
    PRIMARY KEY (pool, name)
) STRICT, WITHOUT ROWID;
