-- The journal: sessions, where each stands, and its steps.
-- Every statement can be run again on a database that has it already.

-- What a session is. Written when it begins and when somebody changes its name or labels. `sid` is never used again,
-- so that (sid, seq) is unique for ever. `record` is the sealed identity; the other columns repeat parts of it, or of
-- the head, because a query looks for them, and are compared with it whenever the row is read.
CREATE TABLE IF NOT EXISTS sessions (
    sid        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    name       TEXT,
    key        TEXT,
    agent      TEXT,
    provider   TEXT,
    parent     TEXT,
    searchable TEXT    NOT NULL,
    record     BLOB    NOT NULL
) STRICT;

-- A session by its id, or by the beginning of it.
CREATE UNIQUE INDEX IF NOT EXISTS sessions_id ON sessions (id);

-- A session by its name; and no name twice.
CREATE UNIQUE INDEX IF NOT EXISTS sessions_name ON sessions (name) WHERE name IS NOT NULL;

-- Pages of all sessions, newest first.
CREATE INDEX IF NOT EXISTS sessions_created ON sessions (created_us, id);

-- Pages of the sessions with a status, newest first.
CREATE INDEX IF NOT EXISTS sessions_status ON sessions (status, created_us, id);

-- Pages of the sessions with a key, newest first.
CREATE INDEX IF NOT EXISTS sessions_key ON sessions (key, created_us, id) WHERE key IS NOT NULL;

-- The forks of a session.
CREATE INDEX IF NOT EXISTS sessions_parent ON sessions (parent, created_us, id) WHERE parent IS NOT NULL;

-- Where a session stands: the sealed head, rewritten with every step. Apart from `sessions`, so that a step rewrites
-- one small row and no index.
CREATE TABLE IF NOT EXISTS heads (
    sid    INTEGER PRIMARY KEY,
    record BLOB NOT NULL
) STRICT;

-- One committed step without its body. `id` is sid << 32 | seq: the table itself is in reading order, appending touches
-- no index, and a list of checkpoints does not walk over bodies.
CREATE TABLE IF NOT EXISTS steps (
    id            INTEGER PRIMARY KEY,
    sid           INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
    seq           INTEGER GENERATED ALWAYS AS (id & 4294967295) VIRTUAL,
    body          INTEGER NOT NULL,
    size_bytes    INTEGER NOT NULL,
    kind          TEXT    NOT NULL,
    at_us         INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    base          INTEGER NOT NULL,
    since         INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    turns         INTEGER NOT NULL,
    open          BLOB,
    label         TEXT,
    key           BLOB    NOT NULL,
    digest        BLOB    NOT NULL
) STRICT;

-- The bodies of all steps in the order of their commits, whichever session they belong to: many sessions that commit
-- together fill the same pages.
CREATE TABLE IF NOT EXISTS bodies (
    id   INTEGER PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

-- How many changes other than steps were committed: names, labels, deletions. One row; `told.py` compares it.
CREATE TABLE IF NOT EXISTS changes (
    n INTEGER NOT NULL
) STRICT;

-- The one row.
INSERT INTO changes (n) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM changes);

-- A session's labels, to list by them; `created_us` repeats the session's, so that a page comes out in order.
CREATE TABLE IF NOT EXISTS session_labels (
    k          TEXT    NOT NULL,
    v          TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    sid        INTEGER NOT NULL,
    PRIMARY KEY (k, v, created_us, sid)
) STRICT, WITHOUT ROWID;

-- The labels of one session, to replace or remove them.
CREATE INDEX IF NOT EXISTS session_labels_sid ON session_labels (sid);
