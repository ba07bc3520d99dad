-- Statements about the store as a whole: state, version, time, integrity.

-- name: inspect
-- What exists, and the server's settings.
SELECT to_regclass('relight.store') IS NOT NULL, to_regnamespace('relight') IS NOT NULL,
       current_setting('transaction_read_only') = 'on' OR pg_is_in_recovery(),
       current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
       EXISTS (SELECT 1 FROM pg_catalog.pg_class
               WHERE relnamespace = to_regnamespace('relight') AND relkind = 'r' AND relpersistence <> 'p')

-- name: read_store
-- The store's id and schema version.
SELECT id, version FROM relight.store

-- name: migration_lock
-- One migration at a time, across processes; released with the transaction.
SELECT pg_advisory_xact_lock(5937420190117846)

-- name: set_version
-- Record the schema version.
UPDATE relight.store SET version = %s

-- name: tables
-- The tables that are there.
SELECT relname::text FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace('relight') AND relkind IN ('r', 'p') ORDER BY relname

-- name: schema
-- Everything the store is made of, a line each: columns, indexes, functions.
SELECT line FROM (
    SELECT 1 AS part, c.relname::text || '.' || lpad(a.attnum::text, 2, '0') AS place,
           c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
           || CASE WHEN l.collname IS NOT NULL AND l.collname <> 'default' THEN ' collate ' || l.collname ELSE '' END
           || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
           || CASE WHEN a.attidentity <> '' THEN ' identity' ELSE '' END
           || CASE WHEN a.attstorage = 'e' THEN ' external' ELSE '' END
           || CASE WHEN d.adbin IS NOT NULL THEN ' default ' || pg_get_expr(d.adbin, d.adrelid) ELSE '' END AS line
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    LEFT JOIN pg_catalog.pg_collation AS l ON l.oid = a.attcollation
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace('relight') AND c.relkind IN ('r', 'p') AND NOT a.attisdropped
    UNION ALL
    SELECT 2, c.relname::text, c.relname || ' with ' || array_to_string(c.reloptions, ', ')
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = to_regnamespace('relight') AND c.relkind IN ('r', 'p') AND c.reloptions IS NOT NULL
    UNION ALL
    SELECT 3, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
    FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
    WHERE c.relnamespace = to_regnamespace('relight') AND c.relkind IN ('r', 'p')
    UNION ALL
    SELECT 4, p.proname::text, pg_get_functiondef(p.oid)
    FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = to_regnamespace('relight')
) AS found ORDER BY part, place COLLATE "C", line COLLATE "C"

-- name: server_time
-- Now, on the timeline of leases, in microseconds.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: snapshot_token
-- The transaction snapshot: differs once anything was committed.
SELECT pg_current_snapshot()::text, pg_postmaster_start_time()::text

-- name: size_bytes
-- Size of its tables and indexes, without blobs.
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace('relight') AND relkind = 'r' AND relname <> 'blobs'

-- name: begin_snapshot
-- A read-only transaction on one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: sessions_after
-- Every session, in pages, for the complete check.
SELECT {session_columns}
FROM relight.sessions AS s
WHERE s.sid > %s ORDER BY s.sid LIMIT %s

-- name: labels_by_sid
-- The labels it is listed by.
SELECT k, v, created_us, id FROM relight.session_labels WHERE sid = %s

-- name: orphan_rows
-- Rows whose session does not exist.
SELECT 'steps' WHERE EXISTS (SELECT 1 FROM relight.steps AS t
                             WHERE NOT EXISTS (SELECT 1 FROM relight.sessions AS s WHERE s.sid = t.sid))
UNION SELECT 'heads' WHERE EXISTS (SELECT 1 FROM relight.heads AS t
                                   WHERE NOT EXISTS (SELECT 1 FROM relight.sessions AS s WHERE s.sid = t.sid))
UNION SELECT 'session_labels' WHERE EXISTS (SELECT 1 FROM relight.session_labels AS t
                                            WHERE NOT EXISTS (SELECT 1 FROM relight.sessions AS s WHERE s.sid = t.sid))
UNION SELECT 'snapshots' WHERE EXISTS (SELECT 1 FROM relight.snapshots AS t
                                       WHERE NOT EXISTS (SELECT 1 FROM relight.sessions AS s WHERE s.sid = t.sid))
UNION SELECT 'checkpoint_labels' WHERE EXISTS (SELECT 1 FROM relight.checkpoint_labels AS t
                                               WHERE NOT EXISTS (SELECT 1 FROM relight.sessions AS s
                                                                 WHERE s.sid = t.sid))
UNION SELECT 'waiting' WHERE EXISTS (SELECT 1 FROM relight.waiting AS t
                                     WHERE NOT EXISTS (SELECT 1 FROM relight.sessions AS s WHERE s.sid = t.sid))
