-- Steps of several sessions in one exchange, one transaction and one sync of the disk.

-- Commit each of these steps as `commit_step` would, and tell the server's time for those that were written and NULL for
-- the others, which must be tried alone. A session that somebody else has locked is one of them: nobody waits here for
-- another's session. `numbers` and `parts` hold 8 and 7 values of each step, one step after the other.
CREATE FUNCTION relight.commit_steps(numbers bigint[], parts bytea[]) RETURNS bigint[] LANGUAGE plpgsql AS $body$
DECLARE
    told bigint[] := '{}';
    n    integer;
    p    integer;
BEGIN
    FOR i IN 0 .. cardinality(numbers) / 8 - 1 LOOP
        n := i * 8;
        p := i * 7;
        PERFORM 1 FROM relight.heads WHERE sid = numbers[n + 1] FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            told := told || relight.commit_step(
                numbers[n + 1], parts[p + 1], parts[p + 2], numbers[n + 2], numbers[n + 3], numbers[n + 4], numbers[n + 5],
                numbers[n + 6], numbers[n + 7], numbers[n + 8]::integer, convert_from(parts[p + 3], 'UTF8'), parts[p + 4],
                parts[p + 5], parts[p + 6], NULL, NULL, NULL, parts[p + 7]
            );
        ELSE
            told := told || NULL::bigint;
        END IF;
    END LOOP;
    RETURN told;
END
$body$;
