-- Statements about sessions: insert, update, find, list, count, delete.

-- name: insert_session
-- Insert a session.
INSERT INTO sessions (id, created_us, status, ended_us, ended_steps, ended_cost, name, key, agent, provider, parent,
                      searchable, sort_name, record)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_session
-- Update a session's identity, not its status: that belongs to the head.
UPDATE sessions SET id = ?, created_us = ?, name = ?, key = ?, agent = ?, provider = ?, parent = ?, searchable = ?,
                    sort_name = ?, record = ?
WHERE sid = ?

-- name: insert_session_label
-- One label of a session.
INSERT INTO session_labels (k, v, created_us, sid) VALUES (?, ?, ?, ?)

-- name: delete_session_labels
-- All labels of a session, before the new ones or for good.
DELETE FROM session_labels WHERE sid = ?

-- name: find_name_holder
-- The session that has this name.
SELECT sid, CAST(id AS BLOB) FROM sessions WHERE name = ?

-- name: session_columns
-- A session's row as it is read, its head last. Text comes as bytes, so that a flipped one can be read at all.
s.sid, CAST(s.id AS BLOB), CAST(s.created_us AS INTEGER), CAST(s.status AS BLOB), CAST(s.name AS BLOB),
CAST(s.key AS BLOB), CAST(s.agent AS BLOB), CAST(s.provider AS BLOB), CAST(s.parent AS BLOB),
CAST(s.searchable AS BLOB), CAST(s.record AS BLOB), CAST(h.record AS BLOB)

-- name: find_by_id
-- A session and its head.
SELECT {session_columns}
FROM sessions AS s LEFT JOIN heads AS h ON h.sid = s.sid
WHERE s.id = ?

-- name: find_by_name
-- The same, by name.
SELECT {session_columns}
FROM sessions AS s LEFT JOIN heads AS h ON h.sid = s.sid
WHERE s.name = ?

-- name: find_by_prefix
-- The same, by the beginning of the id.
SELECT {session_columns}
FROM sessions AS s LEFT JOIN heads AS h ON h.sid = s.sid
WHERE s.id >= ? AND s.id < ? ORDER BY s.id LIMIT ?

-- name: list_page
-- A page of sessions, newest first. The conditions below take the place of {where}: the first of them is the one whose
-- index is used, and the others are held back from the planner by a +.
SELECT {session_columns}
FROM sessions AS s LEFT JOIN heads AS h ON h.sid = s.sid
WHERE {where} ORDER BY s.created_us DESC, s.id DESC LIMIT :limit

-- name: list_page_labelled
-- The same, led by the index of labels.
SELECT {session_columns}
FROM session_labels AS l CROSS JOIN sessions AS s ON s.sid = l.sid LEFT JOIN heads AS h ON h.sid = s.sid
WHERE {where} ORDER BY l.created_us DESC, s.id DESC LIMIT :limit

-- name: lead_label
-- Sessions with a label, where it leads.
l.k = :k0 AND l.v = :v0

-- name: lead_key
-- Sessions with a key, where it leads.
s.key = :key

-- name: lead_parent
-- Forks of a session, where it leads.
s.parent = :parent

-- name: lead_status
-- Sessions with a status, where it leads.
s.status = :status

-- name: lead_created
-- All sessions.
TRUE

-- name: lead_agent
-- Sessions of one kind of agent, where it leads.
s.agent = :agent

-- name: lead_provider
-- Sessions of one provider, where it leads.
s.provider = :provider

-- name: list_ordered
-- The first sessions of another order, from its index.
SELECT {session_columns}
FROM sessions AS s INDEXED BY {index} LEFT JOIN heads AS h ON h.sid = s.sid
WHERE {where} ORDER BY {column} {way}, s.id {way} LIMIT :limit

-- name: list_not_ended
-- Those that no such index has.
SELECT {session_columns}
FROM sessions AS s INDEXED BY sessions_not_ended LEFT JOIN heads AS h ON h.sid = s.sid
WHERE s.ended_us IS NULL AND {where}

-- name: lead_ended
-- Sessions whose steps, cost and last change are in the row.
s.ended_us IS NOT NULL

-- name: order_columns
-- What orders a session, as it is stored.
SELECT CAST(sort_name AS BLOB), ended_us, ended_steps, ended_cost FROM sessions WHERE sid = ?

-- name: after_place
-- Behind the cursor of an order.
({column}, s.id) {beyond} (:place, :place_id)

-- name: before_session
-- After the cursor, where the sessions' own index leads.
(s.created_us, s.id) < (:before_us, :before_id)

-- name: before_labelled
-- After the cursor, where the labels' index leads.
l.created_us <= :before_us AND (s.created_us, s.id) < (:before_us, :before_id)

-- name: with_agent
-- Of one kind of agent.
+s.agent = :agent

-- name: with_provider
-- Of one provider.
+s.provider = :provider

-- name: with_key
-- With a key, where something else leads.
+s.key = :key

-- name: with_parent
-- Forks of a session, where something else leads.
+s.parent = :parent

-- name: with_status
-- With one of several statuses, where something else leads.
+s.status IN (SELECT value FROM json_each(:statuses))

-- name: with_label
-- With one more label; {n} is its number.
EXISTS (SELECT 1 FROM session_labels AS m
        WHERE m.k = :k{n} AND m.v = :v{n} AND m.created_us = s.created_us AND m.sid = s.sid)

-- name: with_text
-- With a text in what people remember of a session.
instr(s.searchable, :text) > 0

-- name: created_since
-- Begun at that time or later.
s.created_us >= :created_since_us

-- name: read_counts
-- How many sessions have which status.
SELECT CAST(status AS BLOB), n FROM status_counts WHERE n <> 0

-- name: find_forks
-- Forks of this session, which read part of their history from it.
SELECT CAST(id AS BLOB) FROM sessions WHERE parent = ? ORDER BY created_us, id

-- name: find_children
-- Children of this session: entries of the index of labels, under a key that no label has.
SELECT CAST(s.id AS BLOB) FROM session_labels AS l JOIN sessions AS s ON s.sid = l.sid WHERE l.k = ? AND l.v = ?

-- name: delete_bodies
-- The bodies of a session's steps.
DELETE FROM bodies WHERE id IN (SELECT body FROM steps WHERE id > ? AND id <= ?)

-- name: delete_older_bodies
-- Which steps they were of, where the bodies do not say it themselves.
DELETE FROM older_bodies WHERE id IN (SELECT body FROM steps WHERE id > ? AND id <= ?)

-- name: delete_steps
-- Every step of a session, by the range of their ids.
DELETE FROM steps WHERE id > ? AND id <= ?

-- name: delete_head
-- A session's head.
DELETE FROM heads WHERE sid = ?

-- name: delete_all_checkpoint_labels
-- Every label of its checkpoints.
DELETE FROM checkpoint_labels WHERE sid = ?

-- name: delete_session
-- The session itself; its number is not used again.
DELETE FROM sessions WHERE sid = ?
