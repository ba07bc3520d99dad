-- Lines of queued sessions, and small records beside the sessions: queues, their slots, workers.
-- Every statement can be run again on a database that has it already.

-- A session that stands in line: exactly while it has a place and is queued. `wake_us` is when its time comes, NULL for
-- now. All of it repeats the head, in whose transaction it is written.
CREATE TABLE IF NOT EXISTS waiting (
    sid      INTEGER PRIMARY KEY,
    line     TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    since_us INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    wake_us  INTEGER
) STRICT;

-- The first of a line.
CREATE INDEX IF NOT EXISTS waiting_ready ON waiting (line, priority DESC, since_us, id) WHERE wake_us IS NULL;

-- Those of a line whose time comes next.
CREATE INDEX IF NOT EXISTS waiting_later ON waiting (line, wake_us, id) WHERE wake_us IS NOT NULL;

-- Small records by kind and name, each with its own seal.
CREATE TABLE IF NOT EXISTS kept (
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
