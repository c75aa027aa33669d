-- What each campaign may spend, and what API processes have taken of that.
CREATE TABLE budgets (
    campaign text PRIMARY KEY,
    budget   bigint NOT NULL,
    allotted bigint NOT NULL DEFAULT 0
);
CREATE TABLE allotments (
    campaign text NOT NULL,
    holder   text NOT NULL,
    slices   bigint NOT NULL,
    PRIMARY KEY (campaign, holder)
);

-- How far each partition is: the next click to be decided, the latest event time, the next record
-- to be read where clicks pass a second topic, the next click to be archived, and the next one of
-- lambda's speed layer.
CREATE TABLE progress (
    part          int PRIMARY KEY,
    next_offset   bigint NOT NULL DEFAULT 0,
    max_ms        bigint NOT NULL DEFAULT 0,
    read_offset   bigint NOT NULL DEFAULT 0,
    archived_next bigint NOT NULL DEFAULT 0,
    speed_next    bigint NOT NULL DEFAULT 0
);

-- What was decided of each click. The API asks for click, whoever takes a partition over for its
-- newest windows.
CREATE TABLE decisions (
    part       int NOT NULL,
    log_offset bigint NOT NULL,
    click      text NOT NULL,
    campaign   text NOT NULL,
    ad         text NOT NULL,
    ip         text NOT NULL,
    window_ms  bigint NOT NULL,
    verdict    text NOT NULL,
    PRIMARY KEY (part, log_offset)
);
CREATE INDEX decisions_click ON decisions (click);
CREATE INDEX decisions_window ON decisions (part, window_ms);

CREATE TABLE windows (
    part      int NOT NULL,
    campaign  text NOT NULL,
    ad        text NOT NULL,
    window_ms bigint NOT NULL,
    clicks    bigint NOT NULL,
    cents     bigint NOT NULL,
    on_time   bigint NOT NULL,
    sketch    bytea NOT NULL,
    PRIMARY KEY (campaign, ad, window_ms)
);
CREATE INDEX windows_part ON windows (part, window_ms);

-- The archive: Parquet files by name. It stands for an object store, and is used as one.
CREATE TABLE objects (
    name text PRIMARY KEY,
    body bytea NOT NULL
);

CREATE TABLE replays (
    op_id bigint PRIMARY KEY,
    done  boolean NOT NULL DEFAULT false
);
CREATE TABLE replayed (
    op_id       bigint NOT NULL,
    part        int NOT NULL,
    next_offset bigint NOT NULL,
    live        text NOT NULL,
    again       text NOT NULL,
    PRIMARY KEY (op_id, part)
);
