-- Tables of reshard_online. A range of keys has a place in each of two maps of shards, and a place
-- stands for a database of its own: no transaction touches two, and each row says in which it is.

-- What a place knows of its range. Whoever adds holds the row, and whoever hands the range over
-- changes it: after those who add, and before those who come.
CREATE TABLE places (
    map   int  NOT NULL,
    range int  NOT NULL,
    epoch int  NOT NULL, -- the place is or was the owner for the epoch-th time of the range
    state text NOT NULL CHECK (state IN ('copy', 'owner', 'frozen')),
    twin  int,           -- the map in which what is counted here is written too
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (map, range)
);

-- Every add that a place has. The epoch is that in which the owner counted it, and came how it got
-- here: it was counted as owner's, written as its twin's, or copied.
CREATE TABLE placed (
    map   int    NOT NULL,
    range int    NOT NULL,
    op_id bigint NOT NULL,
    key   bigint NOT NULL,
    usr   bigint NOT NULL,
    delta bigint NOT NULL,
    epoch int    NOT NULL,
    came  text   NOT NULL CHECK (came IN ('owner', 'twin', 'copy')),
    PRIMARY KEY (map, range, op_id)
);

-- What was counted here, and may not be at the twin yet.
CREATE TABLE due (
    map   int    NOT NULL,
    range int    NOT NULL,
    op_id bigint NOT NULL,
    PRIMARY KEY (map, range, op_id)
);

-- How far each range is moved, which the resharder notes.
CREATE TABLE moves (
    range  int    PRIMARY KEY,
    phase  int    NOT NULL,
    copied bigint NOT NULL -- adds up to this number are copied
);
CREATE INDEX moves_next ON moves (phase, range);

-- The evidence: who has handed over what, and adds that came to a place that was not the owner.
CREATE TABLE handovers (
    range  int NOT NULL,
    epoch  int NOT NULL,
    source int NOT NULL,
    target int NOT NULL,
    paused bigint NOT NULL, -- for how many milliseconds there was no owner
    PRIMARY KEY (range, epoch)
);
CREATE TABLE turned_away (
    map   int    NOT NULL,
    range int    NOT NULL,
    op_id bigint NOT NULL
);
