-- Statements about blobs in PostgreSQL.

-- name: insert_first
-- Insert the first piece; no row if the key exists. Waits for a transaction that is inserting the same key.
INSERT INTO relight.blobs (key, piece, size_bytes, written_us, data)
VALUES (%s, 0, %s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, %b) ON CONFLICT DO NOTHING

-- name: insert_piece
-- A further piece of a blob that this transaction has begun.
INSERT INTO relight.blobs (key, piece, size_bytes, written_us, data) VALUES (%s, %s, 0, 0, %b)

-- name: read_pieces
-- A range of pieces in order; the first one has the size of the blob.
SELECT piece, size_bytes, data FROM relight.blobs WHERE key = %s AND piece BETWEEN %s AND %s ORDER BY piece

-- name: read_first
-- Size and age.
SELECT key, size_bytes, written_us FROM relight.blobs WHERE key = %s AND piece = 0

-- name: read_page
-- Names in order; a prefix ends where the byte after its slash begins.
SELECT key, size_bytes, written_us FROM relight.blobs
WHERE key > %s AND (%s = '' OR (key >= %s AND key < %s)) AND piece = 0 ORDER BY key LIMIT %s

-- name: delete_blobs
-- With all their pieces.
DELETE FROM relight.blobs WHERE key = ANY(%s::text[])
