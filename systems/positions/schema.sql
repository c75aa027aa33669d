-- The drivers. An erased one has no key; the row stays, so that the number is not used again. The
-- table stands for a key management service: no backup and no archive has the keys.
CREATE TABLE drivers (
    driver bigint PRIMARY KEY,
    key    bytea -- NULL: erased
);

-- Every position. The body is 16 bytes of latitude and longitude, or these sealed.
CREATE TABLE pings (
    driver   bigint  NOT NULL,
    seq      bigint  NOT NULL,
    op       bigint  NOT NULL,
    body     bytea   NOT NULL,
    archived boolean NOT NULL,
    PRIMARY KEY (driver, seq)
);
CREATE INDEX pings_new ON pings (driver) WHERE NOT archived;

-- Objects of an archive: compressed pings, and of which drivers they are. The index finds those of
-- a driver.
CREATE TABLE archive (
    name    text PRIMARY KEY,
    drivers bigint[] NOT NULL,
    body    bytea    NOT NULL
);
CREATE INDEX archive_drivers ON archive USING gin (drivers);

-- How far each partition of the log is in the history.
CREATE TABLE progress (
    part        int    PRIMARY KEY,
    next_offset bigint NOT NULL
) WITH (fillfactor = 50);
