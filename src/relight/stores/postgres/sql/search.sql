-- The index of words: what a search reads, and how steps get into it and out of it.

-- name: index_lock
-- One transaction at a time that changes the index; released with it.
SELECT pg_advisory_xact_lock(5937420190117847)

-- name: count_unindexed
-- How many steps are not in the index.
SELECT count(*) FROM relight.unindexed

-- name: text_columns
-- A step as a search reads it.
p.place, s.id, t.seq, t.kind, t.at_us, t.label, t.body

-- name: unindexed
-- The oldest steps that are not in the index, limited by rows and by bytes (the first is always included).
SELECT {text_columns}
FROM (SELECT *, sum(size_bytes) OVER (ORDER BY place) - size_bytes AS bytes_before
      FROM (SELECT u.place, u.sid, u.seq, t.size_bytes FROM relight.unindexed AS u JOIN relight.steps AS t USING (sid, seq)
            ORDER BY u.place LIMIT %s) AS page) AS p
JOIN relight.steps AS t ON t.sid = p.sid AND t.seq = p.seq JOIN relight.sessions AS s ON s.sid = p.sid
WHERE bytes_before < %s ORDER BY p.place

-- name: newest_unindexed
-- The newest ones, in the same way.
SELECT {text_columns}
FROM (SELECT *, sum(size_bytes) OVER (ORDER BY place DESC) - size_bytes AS bytes_before
      FROM (SELECT u.place, u.sid, u.seq, t.size_bytes FROM relight.unindexed AS u JOIN relight.steps AS t USING (sid, seq)
            ORDER BY u.place DESC LIMIT %s) AS page) AS p
JOIN relight.steps AS t ON t.sid = p.sid AND t.seq = p.seq JOIN relight.sessions AS s ON s.sid = p.sid
WHERE bytes_before < %s ORDER BY p.place DESC

-- name: texts_at
-- The steps at these places of the index.
SELECT {text_columns}
FROM relight.indexed AS p JOIN relight.steps AS t ON t.sid = p.sid AND t.seq = p.seq
JOIN relight.sessions AS s ON s.sid = p.sid
WHERE p.place = ANY(%s::bigint[])

-- name: newest_place
-- The last step in the index.
SELECT max(place) FROM relight.indexed

-- name: list_jumps
-- The steps that do not build on the one before them: after a rewind.
SELECT seq, base FROM relight.steps WHERE sid = (SELECT sid FROM relight.sessions WHERE id = %s) AND seq > %s
AND base <> seq - 1 ORDER BY seq

-- name: find_words
-- The rows of a range of words in each of these blocks. OFFSET 0: one lookup a block, whatever the statistics say.
SELECT b.block, w.steps FROM unnest(%s::bigint[]) AS b (block)
CROSS JOIN LATERAL (SELECT steps FROM relight.search_words AS r
                    WHERE r.block = b.block AND r.word >= %t AND r.word <= %t OFFSET 0) AS w

-- name: take_unindexed
-- These steps go into the index; tells which of them there were.
WITH taken AS (DELETE FROM relight.unindexed WHERE place = ANY(%s::bigint[]) RETURNING place, sid, seq),
     put AS (INSERT INTO relight.indexed (place, sid, seq) SELECT place, sid, seq FROM taken)
SELECT taken.place, s.id, taken.seq FROM taken JOIN relight.sessions AS s USING (sid) ORDER BY taken.place

-- name: add_words
-- Steps of blocks that have words; later ones follow.
INSERT INTO relight.search_words AS w (block, word, steps)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bytea[])
ON CONFLICT (block, word) DO UPDATE SET steps = w.steps || excluded.steps

-- name: indexed_places
-- The places of these sessions.
SELECT place FROM relight.indexed WHERE sid = ANY(%s::bigint[])

-- name: count_places
-- How many steps a block has, from the first place to the last.
SELECT count(*) FROM relight.indexed WHERE place >= %s AND place < %s

-- name: words_of_block
-- All rows of a block.
SELECT convert_to(word, 'UTF8'), steps FROM relight.search_words WHERE block = %s

-- name: put_words
-- What is left of rows of a block.
UPDATE relight.search_words AS w SET steps = n.steps
FROM unnest(%s::bytea[], %s::bytea[]) AS n (word, steps)
WHERE w.block = %s AND w.word = convert_from(n.word, 'UTF8')

-- name: delete_words
-- Rows of a block of which nothing is left.
DELETE FROM relight.search_words WHERE block = %s
AND word IN (SELECT convert_from(one, 'UTF8') FROM unnest(%s::bytea[]) AS one)

-- name: delete_block
-- All rows of a block.
DELETE FROM relight.search_words WHERE block = %s
