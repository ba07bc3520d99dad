-- The step of a body, kept with the body itself: an index on `steps (body)` would be one more page to write in every
-- commit. Every statement can be run again on a database that has it already.

-- The id of the step that has this body; NULL if it was committed before this migration.
ALTER TABLE bodies ADD COLUMN step INTEGER;

-- The steps of those, whose rows are not rewritten for it.
CREATE TABLE IF NOT EXISTS older_bodies (
    id   INTEGER PRIMARY KEY,
    step INTEGER NOT NULL
) STRICT;

-- In the order of bodies, so that the table is only appended to.
INSERT OR IGNORE INTO older_bodies (id, step) SELECT body, id FROM steps ORDER BY body;

-- What told it before.
DROP INDEX IF EXISTS steps_body;
