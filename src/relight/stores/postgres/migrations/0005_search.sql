-- The index of words. A commit adds one small row that says that its step is not in the index; a search adds such steps
-- in bounded pieces.

-- The steps that are not in the index yet. `place` is about the order of commits.
CREATE TABLE relight.unindexed (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sid   bigint NOT NULL,
    seq   bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The steps that are in it, under the same places.
CREATE TABLE relight.indexed (
    place bigint PRIMARY KEY,
    sid   bigint NOT NULL,
    seq   bigint NOT NULL
);

-- The places of a session, to remove it.
CREATE INDEX indexed_sid ON relight.indexed (sid);

-- The steps of a block that have a word, as 16-bit numbers within the block (journal/search/blocks.py). The steps of
-- block b have the places from b << 12 on.
CREATE TABLE relight.search_words (
    block bigint NOT NULL,
    word  text   COLLATE "C" NOT NULL,
    steps bytea  NOT NULL,
    PRIMARY KEY (block, word)
);

-- A committed step is not in the index.
CREATE FUNCTION relight.add_unindexed() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO relight.unindexed (sid, seq) VALUES (new.sid, new.seq);
    RETURN NULL;
END
$body$;

-- Whoever writes it, in the same transaction.
CREATE TRIGGER steps_unindexed AFTER INSERT ON relight.steps FOR EACH ROW EXECUTE FUNCTION relight.add_unindexed();

-- The steps that are there.
INSERT INTO relight.unindexed (sid, seq) SELECT sid, seq FROM relight.steps ORDER BY at_us, sid, seq;
