-- What a delta may be. The tables check it; designs that sort out what the tables would refuse ask
-- the same function.
CREATE FUNCTION sound(delta bigint) RETURNS boolean IMMUTABLE LANGUAGE sql
    RETURN delta <> 0 AND delta BETWEEN -1000 AND 1000;

-- Every add that took effect, by its number: one that is sent again finds itself here. Rows are
-- inserted in the order of their numbers, so that two writers never wait for each other in a circle.
CREATE TABLE ops (
    op_id bigint PRIMARY KEY,
    key   bigint NOT NULL,
    usr   bigint NOT NULL,
    shard int    NOT NULL,
    delta bigint NOT NULL CONSTRAINT ops_sound CHECK (sound(delta)),
    pos   bigint NOT NULL -- in the order of which a read is as of; 0 where reads are as of now
);

-- The counters. One may have a part in each shard of a map of shards; its value is their sum. A read
-- finds all parts of a key by the primary key, and compaction the keys that have several.
CREATE TABLE counters (
    key   bigint NOT NULL,
    map   int    NOT NULL,
    shard int    NOT NULL, -- -1: what was compacted
    value bigint NOT NULL,
    PRIMARY KEY (key, map, shard)
) WITH (fillfactor = 50);

-- The maps of shards, the newest of which counts. Without one the map is 1.
CREATE TABLE maps (
    version int PRIMARY KEY,
    shards  int NOT NULL
);

-- Up to where each source is applied: a partition of the log, or the root of the tree. It changes
-- in the transaction of what is applied.
CREATE TABLE progress (
    part        int    PRIMARY KEY,
    next_offset bigint NOT NULL
) WITH (fillfactor = 50);

-- What no attempt could write, and how often that was tried.
CREATE TABLE dead (
    op_id bigint PRIMARY KEY,
    key   bigint NOT NULL,
    usr   bigint NOT NULL,
    delta bigint NOT NULL,
    tries int    NOT NULL
);

-- The batches that were written.
CREATE TABLE batches (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    records int NOT NULL
);

-- The partial sums that the root of the tree has applied, each once, by the node that added them up
-- and by its epoch and sequence. Members are the adds in the sum, "op:delta op:delta": they are
-- evidence, and nothing rests on them.
CREATE TABLE partials (
    node    text   NOT NULL,
    epoch   text   NOT NULL,
    seq     bigint NOT NULL,
    key     bigint NOT NULL,
    sum     bigint NOT NULL,
    pos     bigint NOT NULL,
    members text   NOT NULL,
    PRIMARY KEY (node, epoch, seq, key)
);
