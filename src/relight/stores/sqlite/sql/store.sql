-- Statements about the database as a whole: settings, version, integrity.

-- name: begin_reading
-- A read transaction: everything until the commit is one snapshot.
BEGIN

-- name: application_id
-- The application that the database belongs to.
PRAGMA application_id

-- name: user_version
-- The schema version: how many migrations have run.
PRAGMA user_version

-- name: schema
-- The DDL of every object of the schema.
SELECT CAST(sql AS BLOB) FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name

-- name: columns
-- The columns of a table, for migrations that add one.
SELECT name FROM pragma_table_xinfo(?)

-- name: set_full
-- A commit is on the disk when it returns.
PRAGMA synchronous = FULL

-- name: set_fullfsync
-- On macOS a commit waits for the drive's own cache too; elsewhere SQLite ignores it.
PRAGMA fullfsync = ON

-- name: set_checkpoint_fullfsync
-- The same when the log is written into the database.
PRAGMA checkpoint_fullfsync = ON

-- name: set_secure_delete
-- What is deleted is overwritten.
PRAGMA secure_delete = ON

-- name: set_secure_delete_fast
-- What is deleted is overwritten where that takes no room in the log; the rest is for `scrub`.
PRAGMA secure_delete = FAST

-- name: set_trusted_schema
-- A hostile schema cannot call functions of this connection.
PRAGMA trusted_schema = OFF

-- name: set_cell_size_check
-- A damaged page is noticed when it is read.
PRAGMA cell_size_check = ON

-- name: set_query_only
-- A reader cannot write by mistake.
PRAGMA query_only = ON

-- name: set_journal_size_limit
-- Truncate a log that once grew.
PRAGMA journal_size_limit = 67108864

-- name: set_temp_store
-- Sort in memory: no content in temporary files.
PRAGMA temp_store = MEMORY

-- name: page_size
-- The size of a page.
PRAGMA page_size

-- name: tree_pages
-- Every page that holds cells.
SELECT pageno FROM dbstat WHERE pagetype IN ('leaf', 'internal')

-- name: invalidate_caches
-- A write that changes nothing, but makes every other connection drop its cached pages.
PRAGMA user_version = {version}

-- name: data_version
-- Differs once another connection has committed.
PRAGMA data_version

-- name: integrity
-- The complete check: pages, order of keys, indexes against tables.
PRAGMA integrity_check(100)

-- name: integrity_of
-- Check one table and its indexes.
PRAGMA integrity_check({table})

-- name: all_sids
-- Every session, for the complete check.
SELECT sid FROM sessions ORDER BY sid

-- name: session_by_sid
-- One session by number, with its head.
SELECT {session_columns}
FROM sessions AS s LEFT JOIN heads AS h ON h.sid = s.sid
WHERE s.sid = ?

-- name: labels_by_sid
-- The labels it is listed by.
SELECT CAST(k AS BLOB), CAST(v AS BLOB), created_us FROM session_labels WHERE sid = ?

-- name: orphan_rows
-- Rows whose session does not exist.
SELECT 'steps' FROM steps WHERE sid NOT IN (SELECT sid FROM sessions)
UNION SELECT 'bodies' FROM bodies WHERE id NOT IN (SELECT body FROM steps)
UNION SELECT 'older_bodies' FROM older_bodies WHERE id NOT IN (SELECT body FROM steps)
UNION SELECT 'heads' FROM heads WHERE sid NOT IN (SELECT sid FROM sessions)
UNION SELECT 'session_labels' FROM session_labels WHERE sid NOT IN (SELECT sid FROM sessions)
UNION SELECT 'snapshots' FROM snapshots WHERE sid NOT IN (SELECT sid FROM sessions)
UNION SELECT 'checkpoint_labels' FROM checkpoint_labels WHERE sid NOT IN (SELECT sid FROM sessions)
UNION SELECT 'waiting' FROM waiting WHERE sid NOT IN (SELECT sid FROM sessions)

-- name: miscounted
-- Statuses whose count is not the number of their sessions.
SELECT CAST(status AS BLOB) FROM (SELECT status, n FROM status_counts WHERE n <> 0 UNION ALL
                    SELECT status, -count(*) FROM sessions GROUP BY status)
GROUP BY status HAVING sum(n) <> 0

-- name: changes
-- The number of changes other than steps.
SELECT CAST(n AS INTEGER) FROM changes

-- name: last_sid
-- The highest session number ever used.
SELECT seq FROM sqlite_sequence WHERE name = 'sessions'
