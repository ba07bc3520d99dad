-- The index of words: what a search reads, and how steps get into it and out of it.

-- name: search_progress
-- The last body in the index.
SELECT CAST(upto AS INTEGER) FROM search_progress

-- name: set_search_progress
-- The index now goes so far.
UPDATE search_progress SET upto = ?

-- name: clamp_search_progress
-- After a removal: bodies that are written next may get the numbers of the last ones that went.
UPDATE search_progress SET upto = min(upto, (SELECT coalesce(max(id), 0) FROM bodies))

-- name: steps_by_body
-- Steps in the order of their bodies, which is that of commits. CROSS JOIN keeps the order of lookups. The step must
-- name the body too: a flipped byte must not show a step's text under another one.
FROM bodies LEFT JOIN older_bodies AS o ON o.id = bodies.id AND bodies.step IS NULL
CROSS JOIN steps ON steps.id = coalesce(bodies.step, o.step) AND steps.body = bodies.id
CROSS JOIN sessions AS s ON s.sid = steps.sid

-- name: text_columns
-- A step as a search reads it. Columns are cast, so that a flipped byte cannot make a row unreadable.
bodies.id, CAST(s.id AS BLOB), steps.seq, CAST(steps.kind AS BLOB), CAST(steps.at_us AS INTEGER),
CAST(steps.label AS BLOB), CAST(bodies.data AS BLOB)

-- name: count_unindexed
-- How many steps came after the index, counted up to a bound.
SELECT count(*) FROM (SELECT 1 {steps_by_body} WHERE bodies.id > ? LIMIT ?)

-- name: unindexed
-- The steps after the index, in the order of commits.
SELECT {text_columns} {steps_by_body} WHERE bodies.id > ? ORDER BY bodies.id LIMIT ?

-- name: newest_unindexed
-- The same, newest first.
SELECT {text_columns} {steps_by_body} WHERE bodies.id > ? ORDER BY bodies.id DESC LIMIT ?

-- name: steps_between
-- Which steps have these bodies.
SELECT bodies.id, CAST(s.id AS BLOB), steps.seq {steps_by_body} WHERE bodies.id > ? AND bodies.id <= ?
ORDER BY bodies.id

-- name: count_bodies
-- How many of these bodies there are.
SELECT count(*) FROM bodies WHERE id >= ? AND id < ?

-- name: texts_at
-- The steps with these bodies, as a JSON array.
SELECT {text_columns} {steps_by_body} WHERE bodies.id IN (SELECT value FROM json_each(?))

-- name: list_jumps
-- The steps that do not build on the one before them: after a rewind.
SELECT seq, base FROM steps WHERE id > ? AND id <= ? AND base <> seq - 1 ORDER BY id

-- name: find_words
-- The rows of a range of words in each of these blocks, a JSON array. CROSS JOIN: one lookup a block.
SELECT w.block, w.steps FROM json_each(?) AS b CROSS JOIN search_words AS w
WHERE w.block = b.value AND w.word >= ? AND w.word <= ?

-- name: add_word
-- Steps of a block that have a word; later ones follow.
INSERT INTO search_words (block, word, steps) VALUES (?, ?, ?)
ON CONFLICT (block, word) DO UPDATE SET steps = CAST(steps || excluded.steps AS BLOB)

-- name: bodies_of_session
-- The bodies of a session that are in the index.
SELECT body FROM steps WHERE id > ? AND id <= ? AND body <= ?

-- name: words_of_block
-- All rows of a block.
SELECT CAST(word AS BLOB), CAST(steps AS BLOB) FROM search_words WHERE block = ?

-- name: put_word
-- What is left of a row.
UPDATE search_words SET steps = ?3 WHERE block = ?1 AND word = CAST(?2 AS TEXT)

-- name: delete_word
-- A row of which nothing is left.
DELETE FROM search_words WHERE block = ?1 AND word = CAST(?2 AS TEXT)

-- name: delete_block
-- All rows of a block.
DELETE FROM search_words WHERE block = ?
