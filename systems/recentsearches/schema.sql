-- A user's last change, and the list after it. Its row is locked by each change, so that versions
-- are in the order of commits.
CREATE TABLE users (
    id      bigint PRIMARY KEY,
    version bigint NOT NULL,
    terms   text[] NOT NULL
) WITH (fillfactor = 50); -- updated by each change, never indexed by what changes

-- Every change that is not archived yet. Whoever asks, asks for one user's.
CREATE TABLE changes (
    user_id   bigint      NOT NULL,
    version   bigint      NOT NULL,
    op        bigint      NOT NULL,
    term      text        NOT NULL,
    forgotten boolean     NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_id, version) -- a user's newest ones, backwards
) PARTITION BY HASH (user_id);
CREATE TABLE changes_0 PARTITION OF changes FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE changes_1 PARTITION OF changes FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE changes_2 PARTITION OF changes FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE changes_3 PARTITION OF changes FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE INDEX changes_at ON changes (at); -- the archiver takes the oldest

-- Changes that may not be in the lists yet, and the list after each.
CREATE TABLE outbox (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the relay takes the first
    user_id   bigint      NOT NULL,
    version   bigint      NOT NULL,
    term      text        NOT NULL,
    forgotten boolean     NOT NULL,
    terms     text[]      NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Objects of the archive, by name.
CREATE TABLE objects (
    name text PRIMARY KEY,
    body bytea NOT NULL
);

-- How far each partition of the log is in the history.
CREATE TABLE progress (
    part        int    PRIMARY KEY,
    next_offset bigint NOT NULL
) WITH (fillfactor = 50);
