
-- The new side of a migration, in parts by the driver.
CREATE TABLE pings_next (
    driver   bigint  NOT NULL,
    seq      bigint  NOT NULL,
    op       bigint  NOT NULL,
    body     bytea   NOT NULL,
    archived boolean NOT NULL,
    PRIMARY KEY (driver, seq)
) PARTITION BY HASH (driver);
CREATE TABLE pings_next_0 PARTITION OF pings_next FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE pings_next_1 PARTITION OF pings_next FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX pings_next_new ON pings_next (driver) WHERE NOT archived;

-- Where the migration is, and up to which position of the log changes are applied.
CREATE TABLE migration (
    phase   text   NOT NULL,
    applied pg_lsn NOT NULL
);
INSERT INTO migration VALUES ('waiting', '0/0');
