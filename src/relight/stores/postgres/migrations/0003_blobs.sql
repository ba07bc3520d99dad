-- Blobs for small installations: content of workspaces off the machine, in the same database.

-- One row for every piece of a blob; piece 0 tells its size and age. A piece has a bound, so that no row is large and a
-- range is read without the rest. What is kept is compressed already.
CREATE TABLE relight.blobs (
    key        text   COLLATE "C" NOT NULL,
    piece      integer NOT NULL,
    size_bytes bigint NOT NULL,
    written_us bigint NOT NULL,
    data       bytea  NOT NULL,
    PRIMARY KEY (key, piece)
);

-- Kept as it comes: to compress it again would only take time.
ALTER TABLE relight.blobs ALTER COLUMN data SET STORAGE EXTERNAL;
