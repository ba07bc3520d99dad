-- Statements about sessions: insert, update, find, list, count, delete.

-- name: insert_session
-- Insert a session; returns its number.
INSERT INTO relight.sessions (id, created_us, status, name, key, agent, provider, parent, searchable, record)
VALUES (%b, %s, %t, %b, %b, %b, %b, %b, %b, %b) RETURNING sid

-- name: update_session
-- Update a session's identity, not its status: that belongs to the head.
UPDATE relight.sessions SET id = %b, created_us = %s, name = %b, key = %b, agent = %b, provider = %b, parent = %b,
                            searchable = %b, record = %b
WHERE sid = %s

-- name: insert_session_label
-- One label of a session.
INSERT INTO relight.session_labels (k, v, created_us, id, sid) VALUES (%b, %b, %s, %b, %s)

-- name: delete_session_labels
-- All labels of a session, before the new ones or for good.
DELETE FROM relight.session_labels WHERE sid = %s

-- name: find_name_holder
-- The session that has this name.
SELECT id FROM relight.sessions WHERE name = %b

-- name: lock_parent
-- Lock the parent of a new fork or child against deletion.
SELECT 1 FROM relight.sessions WHERE id = %b FOR KEY SHARE

-- name: session_columns
-- A session's row as it is read, its head last: state up for each row of a page, and never joined with all heads.
s.sid, s.id, s.created_us, s.status, s.name, s.key, s.agent, s.provider, s.parent, s.searchable, s.record,
(SELECT h.record FROM relight.heads AS h WHERE h.sid = s.sid)

-- name: find_by_id
-- A session and its head.
SELECT {session_columns}
FROM relight.sessions AS s
WHERE s.id = %b

-- name: find_by_name
-- The same, by name.
SELECT {session_columns}
FROM relight.sessions AS s
WHERE s.name = %b

-- name: find_by_prefix
-- The same, by the beginning of the id.
SELECT {session_columns}
FROM relight.sessions AS s
WHERE s.id >= %b AND s.id < %b ORDER BY s.id LIMIT %s

-- name: list_page
-- A page of sessions, newest first. The conditions below take the place of {where}.
SELECT {session_columns}
FROM relight.sessions AS s
WHERE {where} ORDER BY s.created_us DESC, s.id DESC LIMIT %(limit)s

-- name: list_page_by_status
-- A page of the sessions with one of several statuses: a page of each, merged.
SELECT {session_columns}
FROM (SELECT found.* FROM unnest(%(statuses)s::text[]) AS wanted (status)
      CROSS JOIN LATERAL (SELECT s.* FROM relight.sessions AS s WHERE s.status = wanted.status AND {where}
                          ORDER BY s.created_us DESC, s.id DESC LIMIT %(limit)s) AS found
      ORDER BY found.created_us DESC, found.id DESC LIMIT %(limit)s) AS s
ORDER BY s.created_us DESC, s.id DESC

-- name: list_page_labelled
-- The same, led by the index of labels.
SELECT {session_columns}
FROM relight.session_labels AS l JOIN relight.sessions AS s ON s.sid = l.sid
WHERE l.k = %(k0)b AND l.v = %(v0)b AND {where} ORDER BY l.created_us DESC, l.id DESC LIMIT %(limit)s

-- name: all_sessions
-- No condition.
TRUE

-- name: with_key
-- Sessions with a key.
s.key = %(key)b

-- name: with_parent
-- Forks of a session.
s.parent = %(parent)b

-- name: before_session
-- After the cursor, where the sessions' own index leads.
(s.created_us, s.id) < (%(before_us)s, %(before_id)b)

-- name: before_labelled
-- After the cursor, where the labels' index leads.
(l.created_us, l.id) < (%(before_us)s, %(before_id)b)

-- name: with_agent
-- Of one kind of agent.
s.agent = %(agent)b

-- name: with_provider
-- Of one provider.
s.provider = %(provider)b

-- name: with_status
-- With one of several statuses, where something else leads.
s.status = ANY(%(statuses)s::text[])

-- name: with_label
-- With one more label; {n} is its number.
EXISTS (SELECT 1 FROM relight.session_labels AS m
        WHERE m.k = %(k{n})b AND m.v = %(v{n})b AND m.created_us = s.created_us AND m.id = s.id)

-- name: with_text
-- With a text in what people remember of a session.
position(%(text)b IN s.searchable) > 0

-- name: created_since
-- Begun at that time or later.
s.created_us >= %(created_since_us)s

-- name: read_counts
-- How many sessions have which status: a walk over the index, some 10 ms for a hundred thousand.
SELECT status, count(*) FROM relight.sessions GROUP BY status

-- name: lock_heads
-- Lock these heads until this transaction ends. Every transaction that locks both takes heads before sessions, in the
-- order of their numbers, so there is no deadlock.
SELECT h.sid, h.record FROM relight.heads AS h
WHERE h.sid IN (SELECT sid FROM relight.sessions WHERE id = ANY(%s::bytea[])) ORDER BY h.sid FOR UPDATE

-- name: lock_sessions
-- Lock these sessions against forks, labels and deletion until this transaction ends.
SELECT sid, id FROM relight.sessions WHERE id = ANY(%s::bytea[]) ORDER BY sid FOR UPDATE

-- name: find_forks
-- Forks that read part of their history from these sessions, and are none of them.
SELECT id, parent FROM relight.sessions WHERE parent = ANY(%s::bytea[]) AND id <> ALL(%s::bytea[]) ORDER BY id

-- name: find_children
-- Children of these sessions that are none of them: entries of the index of labels, under a key that no label has.
SELECT id, v FROM relight.session_labels WHERE k = %s AND v = ANY(%s::bytea[]) AND id <> ALL(%s::bytea[]) ORDER BY id

-- name: delete_sessions
-- Delete all rows of these sessions, by their numbers.
WITH gone AS (DELETE FROM relight.steps WHERE sid = ANY(%(sids)s::bigint[])),
     gone_heads AS (DELETE FROM relight.heads WHERE sid = ANY(%(sids)s::bigint[])),
     gone_snapshots AS (DELETE FROM relight.snapshots WHERE sid = ANY(%(sids)s::bigint[])),
     gone_labels AS (DELETE FROM relight.checkpoint_labels WHERE sid = ANY(%(sids)s::bigint[])),
     gone_listed AS (DELETE FROM relight.session_labels WHERE sid = ANY(%(sids)s::bigint[])),
     gone_waiting AS (DELETE FROM relight.waiting WHERE sid = ANY(%(sids)s::bigint[])),
     gone_indexed AS (DELETE FROM relight.indexed WHERE sid = ANY(%(sids)s::bigint[])),
     gone_unindexed AS (DELETE FROM relight.unindexed WHERE sid = ANY(%(sids)s::bigint[]))
DELETE FROM relight.sessions WHERE sid = ANY(%(sids)s::bigint[])
