-- The orders of a list other than the newest first, and lists of one agent or provider, each from an index.
-- Every statement can be run again on a database that has it already.

-- The name, or the id without one, as names are compared.
ALTER TABLE sessions ADD COLUMN sort_name TEXT;

-- What an ended session is ordered by besides: NULL until it ends, so that no step of a live one touches an index.
ALTER TABLE sessions ADD COLUMN ended_us INTEGER;

-- Its steps.
ALTER TABLE sessions ADD COLUMN ended_steps INTEGER;

-- Its cost; -1 if it is unknown.
ALTER TABLE sessions ADD COLUMN ended_cost REAL;

-- Sessions from before these columns, and from before names with accents were found by a search. `sort_name`,
-- `searchable_text` and `ended_order` are the runner's; text is given as bytes, so that a flipped one stops no migration.
UPDATE sessions SET
    sort_name = sort_name(CAST(name AS BLOB), CAST(id AS BLOB)),
    searchable = COALESCE(searchable_text(record), searchable),
    ended_us = ended_order(0, CAST(status AS BLOB), created_us, (SELECT record FROM heads WHERE heads.sid = sessions.sid)),
    ended_steps = ended_order(1, CAST(status AS BLOB), created_us, (SELECT record FROM heads WHERE heads.sid = sessions.sid)),
    ended_cost = ended_order(2, CAST(status AS BLOB), created_us, (SELECT record FROM heads WHERE heads.sid = sessions.sid));

-- By name.
CREATE INDEX IF NOT EXISTS sessions_by_name ON sessions (sort_name, id);

-- By the last change.
CREATE INDEX IF NOT EXISTS sessions_by_updated ON sessions (ended_us, id) WHERE ended_us IS NOT NULL;

-- By the number of steps.
CREATE INDEX IF NOT EXISTS sessions_by_steps ON sessions (ended_steps, id) WHERE ended_us IS NOT NULL;

-- By cost.
CREATE INDEX IF NOT EXISTS sessions_by_cost ON sessions (ended_cost, id) WHERE ended_us IS NOT NULL;

-- The others, which are read for every order.
CREATE INDEX IF NOT EXISTS sessions_not_ended ON sessions (created_us, id) WHERE ended_us IS NULL;

-- Of one kind of agent, newest last.
CREATE INDEX IF NOT EXISTS sessions_agent ON sessions (agent, created_us, id) WHERE agent IS NOT NULL;

-- Of one provider, newest last.
CREATE INDEX IF NOT EXISTS sessions_provider ON sessions (provider, created_us, id) WHERE provider IS NOT NULL;
