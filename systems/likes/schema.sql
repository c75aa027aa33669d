-- Who likes what: Postgres, READ COMMITTED.

-- One row for each video. The locked-row design counts here; for the others it
-- has the epoch: how often the video's counters in Redis have been built.
CREATE TABLE videos (
    video_id bigint PRIMARY KEY,
    likes    bigint NOT NULL DEFAULT 0,
    epoch    bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50); -- room to update the hot row in place (HOT)

-- One row for each user and video that ever met, found by its key. A like that
-- was taken back stays as a row, because an older event of the log that arrives
-- later must lose against its version.
CREATE TABLE likes (
    video_id   bigint      NOT NULL,
    user_id    bigint      NOT NULL,
    liked      boolean     NOT NULL,
    version    bigint      NOT NULL,
    op_id      bigint      NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (video_id, user_id)
);

-- Every interaction once, however often the log delivers it: the auditable
-- record. Its key is all that is ever looked up.
CREATE TABLE like_events (
    op_id    bigint  PRIMARY KEY,
    video_id bigint  NOT NULL,
    user_id  bigint  NOT NULL,
    liked    boolean NOT NULL,
    version  bigint  NOT NULL
);

-- How far each partition of the log is in the ledger, written in the
-- transaction that applies the events.
CREATE TABLE applied (
    partition   int    PRIMARY KEY,
    next_offset bigint NOT NULL
);

-- Who has seen what, exactly: only the locked-row design keeps it.
CREATE TABLE viewers (
    video_id bigint NOT NULL,
    user_id  bigint NOT NULL,
    PRIMARY KEY (video_id, user_id)
);
