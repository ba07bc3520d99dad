CREATE TABLE bodies (
    id   INTEGER PRIMARY KEY,
    data BLOB NOT NULL
, step INTEGER) STRICT;

CREATE TABLE changes (
    n INTEGER NOT NULL
) STRICT;

CREATE TABLE checkpoint_labels (
    id    INTEGER PRIMARY KEY,
    sid   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    label TEXT    NOT NULL,
    seal  BLOB    NOT NULL
) STRICT;

CREATE INDEX checkpoint_labels_label ON checkpoint_labels (sid, label);

CREATE TABLE heads (
    sid    INTEGER PRIMARY KEY,
    record BLOB NOT NULL
) STRICT;

CREATE TABLE kept (
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE older_bodies (
    id   INTEGER PRIMARY KEY,
    step INTEGER NOT NULL
) STRICT;

CREATE TABLE search_progress (
    upto INTEGER NOT NULL
) STRICT;

CREATE TABLE search_words (
    block INTEGER NOT NULL,
    word  TEXT    NOT NULL,
    steps BLOB    NOT NULL,
    PRIMARY KEY (block, word)
) STRICT, WITHOUT ROWID;

CREATE TABLE segments (
    pool TEXT NOT NULL,
    name TEXT NOT NULL,
    seal BLOB NOT NULL,
    PRIMARY KEY (pool, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE session_labels (
    k          TEXT    NOT NULL,
    v          TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    sid        INTEGER NOT NULL,
    PRIMARY KEY (k, v, created_us, sid)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_labels_sid ON session_labels (sid);

CREATE TABLE sessions (
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
, sort_name TEXT, ended_us INTEGER, ended_steps INTEGER, ended_cost REAL) STRICT;

CREATE INDEX sessions_agent ON sessions (agent, created_us, id) WHERE agent IS NOT NULL;

CREATE INDEX sessions_by_cost ON sessions (ended_cost, id) WHERE ended_us IS NOT NULL;

CREATE INDEX sessions_by_name ON sessions (sort_name, id);

CREATE INDEX sessions_by_steps ON sessions (ended_steps, id) WHERE ended_us IS NOT NULL;

CREATE INDEX sessions_by_updated ON sessions (ended_us, id) WHERE ended_us IS NOT NULL;

CREATE TRIGGER sessions_counted AFTER INSERT ON sessions BEGIN
    INSERT INTO status_counts (status, n) VALUES (new.status, 1) ON CONFLICT (status) DO UPDATE SET n = n + 1;
END;

CREATE INDEX sessions_created ON sessions (created_us, id);

CREATE TRIGGER sessions_discounted AFTER DELETE ON sessions BEGIN
    UPDATE status_counts SET n = n - 1 WHERE status = old.status;
END;

CREATE UNIQUE INDEX sessions_id ON sessions (id);

CREATE INDEX sessions_key ON sessions (key, created_us, id) WHERE key IS NOT NULL;

CREATE UNIQUE INDEX sessions_name ON sessions (name) WHERE name IS NOT NULL;

CREATE INDEX sessions_not_ended ON sessions (created_us, id) WHERE ended_us IS NULL;

CREATE INDEX sessions_parent ON sessions (parent, created_us, id) WHERE parent IS NOT NULL;

CREATE INDEX sessions_provider ON sessions (provider, created_us, id) WHERE provider IS NOT NULL;

CREATE TRIGGER sessions_recounted AFTER UPDATE OF status ON sessions WHEN old.status <> new.status BEGIN
    UPDATE status_counts SET n = n - 1 WHERE status = old.status;
    INSERT INTO status_counts (status, n) VALUES (new.status, 1) ON CONFLICT (status) DO UPDATE SET n = n + 1;
END;

CREATE INDEX sessions_status ON sessions (status, created_us, id);

CREATE TABLE snapshots (
    sid  INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    root TEXT    NOT NULL,
    pool TEXT    NOT NULL,
    id   TEXT    NOT NULL,
    seal BLOB    NOT NULL,
    PRIMARY KEY (sid, seq, root)
) STRICT, WITHOUT ROWID;

CREATE INDEX snapshots_pool ON snapshots (pool);

CREATE TABLE status_counts (
    status TEXT    PRIMARY KEY,
    n      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
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

CREATE TABLE waiting (
    sid      INTEGER PRIMARY KEY,
    line     TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    since_us INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    wake_us  INTEGER
) STRICT;

CREATE INDEX waiting_later ON waiting (line, wake_us, id) WHERE wake_us IS NOT NULL;

CREATE INDEX waiting_ready ON waiting (line, priority DESC, since_us, id) WHERE wake_us IS NULL;
