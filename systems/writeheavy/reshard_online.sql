-- Tables of reshard_online. A range of keys has a place in each of two maps of shards, and a place
-- stands for a database of its own: no transaction writes to two, and each row says in which it is.

-- What a place knows of its range. An add holds the row, and a change of it waits for adds that are
-- under way. The lock of the place in front of it is fair: adds that come later wait for the change.
CREATE TABLE places (
    map   int  NOT NULL,
    range int  NOT NULL,
    epoch int  NOT NULL, -- the place is or was the owner for the epoch-th time of the range
    state text NOT NULL CHECK (state IN ('copy', 'owner', 'frozen')),
    twin  int,           -- the map in which what is counted here is written too
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (map, range)
);

-- Every add that a place has. The epoch is that in which the owner counted it, in_epoch that of this
-- place when it got here, and came says how: it was counted here, written as the twin's, or copied.
CREATE TABLE placed (
    map   int    NOT NULL,
    range int    NOT NULL,
    op_id bigint NOT NULL,
    key   bigint NOT NULL,
    usr   bigint NOT NULL,
    delta bigint NOT NULL,
    epoch int    NOT NULL,
    in_epoch int NOT NULL,
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

-- The evidence: the changes of owners, and requests that came to a place that was no longer the owner.
CREATE TABLE handovers (
    range  int NOT NULL,
    epoch  int NOT NULL,
    source int NOT NULL,
    target int NOT NULL,
    paused bigint NOT NULL, -- for how many milliseconds there was no owner
    PRIMARY KEY (range, epoch)
);
CREATE TABLE turned_away (range int NOT NULL);
