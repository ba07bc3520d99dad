-- Triggers that copy queue rows to Procrastinate's jobs. Runs in one transaction, under a lock, after its own schema.

-- The versions that installed it: Procrastinate's, and that of this file.
CREATE TABLE IF NOT EXISTS relight_fleet.engine (
    only_one      boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    procrastinate text    NOT NULL,
    ours          integer NOT NULL
);

-- A queue name that fits into a NOTIFY channel: 63 characters, of which Procrastinate uses 23.
CREATE OR REPLACE FUNCTION relight_fleet.queue_name(line bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $body$
    SELECT CASE WHEN octet_length(line) <= 40 THEN convert_from(line, 'UTF8') ELSE 'h:' || md5(line) END
$body$;

-- One job for a queued session; a job that no worker has fetched is updated.
CREATE OR REPLACE FUNCTION relight_fleet.offer(a_id bytea, a_line bytea, a_priority integer, at timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = relight_fleet, pg_temp AS $body$
DECLARE
    session text := convert_from(a_id, 'UTF8');
BEGIN
    UPDATE procrastinate_jobs
    SET queue_name = relight_fleet.queue_name(a_line), priority = a_priority, scheduled_at = at
    WHERE queueing_lock = session AND status = 'todo';
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(
        relight_fleet.queue_name(a_line), 'relight.session', a_priority, NULL, session,
        jsonb_build_object('session', session), at
    )]::procrastinate_job_to_defer_v1[]);
EXCEPTION WHEN unique_violation THEN
    RETURN; -- somebody else offers it at this moment
END
$body$;

-- A queue row is inserted: a job. It is deleted: a job that no worker has fetched is deleted too.
CREATE OR REPLACE FUNCTION relight_fleet.enlist() RETURNS trigger LANGUAGE plpgsql
SET search_path = relight_fleet, pg_temp AS $body$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM procrastinate_jobs WHERE queueing_lock = convert_from(OLD.id, 'UTF8') AND status = 'todo';
        RETURN NULL;
    END IF;
    PERFORM relight_fleet.offer(NEW.id, NEW.line, NEW.priority,
                                CASE WHEN NEW.wake_us IS NOT NULL THEN to_timestamp(NEW.wake_us / 1000000.0) END);
    RETURN NULL;
END
$body$;

-- Runs in the transaction that changes the queue row.
DROP TRIGGER IF EXISTS relight_enlist ON relight.waiting;
CREATE TRIGGER relight_enlist AFTER INSERT OR UPDATE OR DELETE ON relight.waiting
FOR EACH ROW EXECUTE FUNCTION relight_fleet.enlist();

-- Sessions that are queued already.
SELECT relight_fleet.offer(w.id, w.line, w.priority,
                           CASE WHEN w.wake_us IS NOT NULL THEN to_timestamp(w.wake_us / 1000000.0) END)
FROM relight.waiting AS w;
