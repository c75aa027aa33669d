-- What is blocked. Its numbers are in the order of commits: see systems/internal/known.
CREATE TABLE known (
    seq  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- APIs read what is after one
    op   bigint NOT NULL UNIQUE,
    text text   NOT NULL
);
CREATE INDEX known_text ON known (text); -- designs that ask for each suggestion

-- APIs that know by themselves what is blocked, up to a number and until a time.
CREATE TABLE readers (
    id    text        PRIMARY KEY,
    seq   bigint      NOT NULL,
    until timestamptz NOT NULL
) WITH (fillfactor = 50); -- updated all the time

-- Segments of an index, by name.
CREATE TABLE objects (
    name text PRIMARY KEY,
    body bytea NOT NULL
);

-- How far the log is in tables. It has one partition.
CREATE TABLE progress (
    part        int    PRIMARY KEY,
    next_offset bigint NOT NULL
) WITH (fillfactor = 50);
