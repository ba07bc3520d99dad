-- The journal: sessions, where each stands, its steps, labels, snapshots, and the one statement that commits a step.
-- All of a migration runs in one transaction, under a lock that every starting relight takes.

-- Everything of ours lies in a schema of its own, and every statement names it: no search path is relied on.
CREATE SCHEMA IF NOT EXISTS relight;

-- This store: one row. `id` names its timeline and its directories on workers; `version` counts the migrations.
CREATE TABLE relight.store (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    id       text    NOT NULL,
    version  integer NOT NULL
);

-- The one row.
INSERT INTO relight.store (id, version) VALUES (replace(gen_random_uuid()::text, '-', ''), 0);

-- What a session is. `sid` is never used again, so that (sid, seq) is unique for ever. `record` is the sealed identity;
-- the other columns repeat parts of it, or of the head, because a query looks for them, and are compared with it
-- whenever the row is read. People's text is bytes (UTF-8, lone surrogates and NUL included): text could not hold it,
-- and bytes have one order in every collation. To read one: convert_from(name, 'UTF8').
CREATE TABLE relight.sessions (
    sid        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bytea   NOT NULL,
    created_us bigint  NOT NULL,
    status     text    COLLATE "C" NOT NULL,
    name       bytea,
    key        bytea,
    agent      bytea,
    provider   bytea,
    parent     bytea,
    searchable bytea   NOT NULL,
    record     bytea   NOT NULL
);

-- A session by its id, or by the beginning of it.
CREATE UNIQUE INDEX sessions_id ON relight.sessions (id);

-- A session by its name; and no name twice.
CREATE UNIQUE INDEX sessions_name ON relight.sessions (name) WHERE name IS NOT NULL;

-- Pages of all sessions, newest first.
CREATE INDEX sessions_created ON relight.sessions (created_us, id);

-- Pages of the sessions with a status, newest first; and how many there are.
CREATE INDEX sessions_status ON relight.sessions (status, created_us, id);

-- Pages of the sessions with a key, newest first.
CREATE INDEX sessions_key ON relight.sessions (key, created_us, id) WHERE key IS NOT NULL;

-- The forks of a session.
CREATE INDEX sessions_parent ON relight.sessions (parent, created_us, id) WHERE parent IS NOT NULL;

-- Where a session stands: the sealed head, rewritten with every step. Apart from `sessions`, so that a step rewrites one
-- small row and no index. Pages are left half empty: the new version of a row fits beside the old one, and old ones are
-- cleared away by the next writer of the page.
CREATE TABLE relight.heads (
    sid    bigint PRIMARY KEY,
    record bytea  NOT NULL
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One committed step. Bodies are compressed already: those that do not fit into the row are moved out as they are.
CREATE TABLE relight.steps (
    sid           bigint  NOT NULL,
    seq           bigint  NOT NULL,
    at_us         bigint  NOT NULL,
    base          bigint  NOT NULL,
    since         bigint  NOT NULL,
    message_count bigint  NOT NULL,
    turns         bigint  NOT NULL,
    size_bytes    bigint  NOT NULL,
    attempt       integer NOT NULL,
    kind          text    COLLATE "C" NOT NULL,
    key           bytea   NOT NULL,
    digest        bytea   NOT NULL,
    open          bytea,
    label         bytea,
    body          bytea   NOT NULL,
    PRIMARY KEY (sid, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);

-- No second compression.
ALTER TABLE relight.steps ALTER COLUMN body SET STORAGE EXTERNAL;

-- A session's labels, to list by them; `created_us` and `id` repeat the session's, so that a page comes out in order.
CREATE TABLE relight.session_labels (
    k          bytea  NOT NULL,
    v          bytea  NOT NULL,
    created_us bigint NOT NULL,
    id         bytea  NOT NULL,
    sid        bigint NOT NULL,
    PRIMARY KEY (k, v, created_us, id)
);

-- The labels of one session, to replace or remove them.
CREATE INDEX session_labels_sid ON relight.session_labels (sid);

-- Labels given to checkpoints, in the order they were given: the greatest id is the newest. Each row carries its own
-- seal, because no digest covers it.
CREATE TABLE relight.checkpoint_labels (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sid   bigint NOT NULL,
    seq   bigint NOT NULL,
    label bytea  NOT NULL,
    seal  bytea  NOT NULL
);

-- A checkpoint by its label, and all labels of a session.
CREATE INDEX checkpoint_labels_label ON relight.checkpoint_labels (sid, label, id);

-- The snapshots taken with a step. Sealed, because sweeping trusts them: a snapshot nobody names is removed.
CREATE TABLE relight.snapshots (
    sid  bigint NOT NULL,
    seq  bigint NOT NULL,
    root bytea  NOT NULL,
    pool bytea  NOT NULL,
    id   bytea  NOT NULL,
    seal bytea  NOT NULL,
    PRIMARY KEY (sid, seq, root)
);

-- What a pool must keep.
CREATE INDEX snapshots_pool ON relight.snapshots (pool);

-- One row for every segment of a pool. Sweeping removes the row first: a step that relies on the segment is refused from
-- then on. Sealed like the others.
CREATE TABLE relight.segments (
    pool bytea NOT NULL,
    name bytea NOT NULL,
    seal bytea NOT NULL,
    PRIMARY KEY (pool, name)
);

-- Commit one step, if the session's head is still, byte for byte, the one it was planned on. False: nothing was written.
-- One exchange with the server, one transaction; the plans of its statements are kept by the server, so that it is fast
-- behind a pooler too, where a client cannot keep prepared statements. A commit is on the disk when it returns, whatever
-- the server's default says.
CREATE FUNCTION relight.commit_step(
    a_sid bigint, planned_on bytea, moved_to bytea, a_seq bigint, a_at_us bigint, a_base bigint, a_since bigint,
    a_message_count bigint, a_turns bigint, a_attempt integer, a_kind text, a_key bytea, a_digest bytea, a_open bytea,
    a_label bytea, a_label_seal bytea, a_status text, a_body bytea
) RETURNS bigint LANGUAGE plpgsql AS $body$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE relight.heads SET record = moved_to WHERE sid = a_sid AND record = planned_on;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO relight.steps (sid, seq, at_us, base, since, message_count, turns, size_bytes, attempt, kind, key, digest,
                               open, label, body)
    VALUES (a_sid, a_seq, a_at_us, a_base, a_since, a_message_count, a_turns, length(a_body), a_attempt, a_kind, a_key,
            a_digest, a_open, a_label, a_body);
    IF a_label IS NOT NULL THEN
        INSERT INTO relight.checkpoint_labels (sid, seq, label, seal) VALUES (a_sid, a_seq, a_label, a_label_seal);
    END IF;
    IF a_status IS NOT NULL THEN
        UPDATE relight.sessions SET status = a_status WHERE sid = a_sid;
    END IF;
    RETURN extract(epoch FROM clock_timestamp()) * 1000000;
END
$body$;
