-- The index of words. Steps are committed without it; a search adds those that are not in it yet, in bounded pieces.
-- Every statement can be run again on a database that has it already.

-- The steps of a block that have a word, as 16-bit numbers within the block (journal/search/blocks.py). The steps of
-- block b have the bodies from b << 12 on.
CREATE TABLE IF NOT EXISTS search_words (
    block INTEGER NOT NULL,
    word  TEXT    NOT NULL,
    steps BLOB    NOT NULL,
    PRIMARY KEY (block, word)
) STRICT, WITHOUT ROWID;

-- How far the index goes: the last body in it. One row.
CREATE TABLE IF NOT EXISTS search_progress (
    upto INTEGER NOT NULL
) STRICT;

-- The one row: nothing is in the index yet.
INSERT INTO search_progress (upto) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM search_progress);
