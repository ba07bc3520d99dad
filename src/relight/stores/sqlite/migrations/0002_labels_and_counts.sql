-- Labels of checkpoints that can be given and taken later, and counts that need no scan.
-- Every statement can be run again on a database that has it already.

-- Labels given to checkpoints, in the order they were given: the greatest id is the newest. Each row carries its own
-- seal, because no digest covers it.
CREATE TABLE IF NOT EXISTS checkpoint_labels (
    id    INTEGER PRIMARY KEY,
    sid   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    label TEXT    NOT NULL,
    seal  BLOB    NOT NULL
) STRICT;

-- A checkpoint by its label, and all labels of a session.
CREATE INDEX IF NOT EXISTS checkpoint_labels_label ON checkpoint_labels (sid, label);

-- Labels that were given when the step was committed, before this table existed. `label_seal` is the runner's.
INSERT INTO checkpoint_labels (sid, seq, label, seal)
SELECT steps.sid, steps.seq, steps.label, label_seal(steps.sid, steps.seq, steps.label)
FROM steps
WHERE steps.label IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM checkpoint_labels AS given WHERE given.sid = steps.sid AND given.seq = steps.seq)
ORDER BY steps.at_us, steps.id;

-- How many sessions have a status. Kept by the triggers below, touched only when a status changes.
CREATE TABLE IF NOT EXISTS status_counts (
    status TEXT    PRIMARY KEY,
    n      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Count from the beginning, also where an earlier try had counted already.
DELETE FROM status_counts;

-- The sessions that are there.
INSERT INTO status_counts (status, n) SELECT status, count(*) FROM sessions GROUP BY status;

-- A session begins.
CREATE TRIGGER IF NOT EXISTS sessions_counted AFTER INSERT ON sessions BEGIN
    INSERT INTO status_counts (status, n) VALUES (new.status, 1) ON CONFLICT (status) DO UPDATE SET n = n + 1;
END;

-- A session goes from one status to another.
CREATE TRIGGER IF NOT EXISTS sessions_recounted AFTER UPDATE OF status ON sessions WHEN old.status <> new.status BEGIN
    UPDATE status_counts SET n = n - 1 WHERE status = old.status;
    INSERT INTO status_counts (status, n) VALUES (new.status, 1) ON CONFLICT (status) DO UPDATE SET n = n + 1;
END;

-- A session is deleted.
CREATE TRIGGER IF NOT EXISTS sessions_discounted AFTER DELETE ON sessions BEGIN
    UPDATE status_counts SET n = n - 1 WHERE status = old.status;
END;
