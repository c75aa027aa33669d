-- The tables of the designs whose panes are in Postgres. Every statement finds its rows by a
-- primary key; the audit reads a table once.

-- How far each partition of the log is counted. A worker moves on from where it began only: one
-- that lost the partition finds another offset there, and stores nothing.
CREATE TABLE progress (
    part        int    PRIMARY KEY,
    next_offset bigint NOT NULL
) WITH (fillfactor = 50);

-- What each partition has of each window. Sketches do not compress, and are not tried.
CREATE TABLE panes (
    win     bigint NOT NULL,
    shard   int    NOT NULL,
    events  bigint NOT NULL,
    keys    bytea  NOT NULL, -- the summary
    rest    bytea  NOT NULL, -- a HyperLogLog, a Morris counter, and what the summary cost
    PRIMARY KEY (win, shard)
) WITH (fillfactor = 50);
ALTER TABLE panes ALTER keys SET STORAGE EXTERNAL, ALTER rest SET STORAGE EXTERNAL;
