WITH made AS (
    INSERT INTO relight.sessions (id, created_us, status, key, parent, searchable, record)
    SELECT convert_to('s-' || lpad(n::text, 8, '0'), 'UTF8'), 1000000 + n,
           (ARRAY['completed', 'completed', 'completed', 'failed', 'waiting'])[1 + n %% 5],
           CASE WHEN n %% 3 = 0 THEN convert_to('key-' || (n %% 1000), 'UTF8') END,
           CASE WHEN n %% 50 = 1 THEN convert_to('s-' || lpad((n - 1)::text, 8, '0'), 'UTF8') END,
           convert_to('generated ' || n, 'UTF8'), ''
    FROM generate_series(%(first)s::int, %(first)s::int + %(sessions)s::int - 1) AS n
    RETURNING sid, id, created_us
), headed AS (
    INSERT INTO relight.heads (sid, record) SELECT sid, decode(repeat('ab', 300), 'hex') FROM made
), labelled AS (
    INSERT INTO relight.session_labels (k, v, created_us, id, sid)
    SELECT 'team', convert_to('team-' || (sid %% 20), 'UTF8'), created_us, id, sid FROM made
), taken AS (
    INSERT INTO relight.snapshots (sid, seq, root, pool, id, seal)
    SELECT sid, 1, 'r', convert_to('gone-' || sid, 'UTF8'), 'x', 'x' FROM made
)
INSERT INTO relight.steps (sid, seq, at_us, base, since, message_count, turns, size_bytes, attempt, kind, key, digest, body)
SELECT sid, seq, created_us, seq - 1, 0, seq, seq, 200, 1, 'message', '12345678', decode(repeat('cd', 32), 'hex'),
       decode(repeat('ef', 200), 'hex')
FROM made, generate_series(1, %(steps)s::int) AS seq
