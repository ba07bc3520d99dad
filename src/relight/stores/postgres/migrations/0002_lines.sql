-- Lines of queued sessions, and small records beside the sessions: queues, their slots, workers.

-- A session that stands in line: exactly while it has a place and is queued. `wake_us` is when its time comes, NULL for
-- now. All of it repeats the head, in whose transaction it is written. An engine that wakes workers may hang a trigger
-- on it, and then has its own row in the same transaction, whoever writes.
CREATE TABLE relight.waiting (
    sid      bigint  PRIMARY KEY,
    line     bytea   NOT NULL,
    priority integer NOT NULL,
    since_us bigint  NOT NULL,
    id       bytea   NOT NULL,
    wake_us  bigint
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The first of a line.
CREATE INDEX waiting_ready ON relight.waiting (line, priority DESC, since_us, id) WHERE wake_us IS NULL;

-- Those of a line whose time comes next.
CREATE INDEX waiting_later ON relight.waiting (line, wake_us, id) WHERE wake_us IS NOT NULL;

-- Small records by kind and name, each with its own seal.
CREATE TABLE relight.kept (
    kind   text  COLLATE "C" NOT NULL,
    name   bytea NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);
