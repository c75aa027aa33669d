-- The tables of the view pipeline. Every statement finds its rows by a primary
-- key but for those of the audit and of the gauge, which read a table once.

-- Who made a video: creators' views of their own videos do not count.
CREATE TABLE videos (
    video   text PRIMARY KEY,
    creator text NOT NULL
);

-- The rules, as analysts write them. A version is never changed: events in the
-- log name the one that decides them.
CREATE TABLE filter_rules (
    version    bigint NOT NULL,
    rule_id    int    NOT NULL,
    rule_type  text   NOT NULL,
    parameters jsonb  NOT NULL,
    PRIMARY KEY (version, rule_id)
);

-- How far each stage has come with each partition. A stage moves on only in the
-- transaction that stores its results, and only if its epoch is still the
-- highest: whoever took the partition after it has a higher one.
CREATE TABLE progress (
    stage       text   NOT NULL,
    generation  bigint NOT NULL,
    part        int    NOT NULL, -- the partition
    epoch       bigint NOT NULL DEFAULT 0,
    next_offset bigint NOT NULL DEFAULT 0,
    -- The counter: the last position in watch_events of which a view was
    -- counted, -1 if there is none. What comes up to it comes again.
    source      bigint NOT NULL DEFAULT -1,
    -- The filter: up to where it has decided, and the positions of the views in
    -- between, which it has to forward.
    decided_offset bigint NOT NULL DEFAULT 0,
    views          bytea  NOT NULL DEFAULT '',
    PRIMARY KEY (stage, generation, part)
) WITH (fillfactor = 50); -- updated all the time, never indexed by what changes

-- What the filter turned away, by the partition of watch_events.
CREATE TABLE drops (
    part   int    NOT NULL,
    video  text   NOT NULL,
    reason text   NOT NULL,
    events bigint NOT NULL,
    PRIMARY KEY (part, video, reason)
) WITH (fillfactor = 50);

-- A counting of valid_events from its beginning. Readers see the last one that
-- went live. The first is the group's and goes on for ever.
CREATE TABLE generations (
    generation bigint PRIMARY KEY,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    live_at    timestamptz, -- when readers began to see it
    retired_at timestamptz  -- since when nobody counts it any more
);

-- Views by window of event time. The shard is the partition: where a video is
-- in several partitions, each has rows of its own and no row is hot.
CREATE TABLE view_counts (
    generation   bigint NOT NULL,
    video        text   NOT NULL,
    window_start bigint NOT NULL, -- Unix milliseconds
    shard        int    NOT NULL,
    views        bigint NOT NULL,
    PRIMARY KEY (generation, video, window_start, shard)
) WITH (fillfactor = 70);

-- Their sums over all windows, so that a read does not grow with time.
CREATE TABLE shard_views (
    generation bigint NOT NULL,
    video      text   NOT NULL,
    shard      int    NOT NULL,
    views      bigint NOT NULL,
    PRIMARY KEY (generation, video, shard)
) WITH (fillfactor = 50);

-- What readers see. A design whose readers see something else replaces it.
CREATE VIEW shown_views AS
    SELECT generation, video, sum(views)::bigint AS views FROM shard_views GROUP BY 1, 2;
