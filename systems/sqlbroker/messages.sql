-- What designs of ours keep messages in.

-- One row for each message that is in a queue, or was acknowledged and is kept for
-- a while. The slot is the partition, where there are partitions, and 0 elsewhere.
CREATE TABLE messages (
    slot       int         NOT NULL DEFAULT 0,
    id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    queue      text        NOT NULL,
    op_id      bigint      NOT NULL,
    idx        int         NOT NULL,
    grp        bigint      NOT NULL, -- 0: in no group
    priority   int         NOT NULL,
    state      text        NOT NULL,
    receives   int         NOT NULL DEFAULT 0,
    redrives   int         NOT NULL DEFAULT 0,
    receipt    uuid, -- of the delivery that it is in, or was acknowledged by
    created_at timestamptz NOT NULL,
    picked_at  timestamptz,
    visible_at timestamptz NOT NULL, -- when a delayed or a picked one is due; a ready one: since when
    acked_at   timestamptz,
    body       text        NOT NULL,
    PRIMARY KEY (slot, id),
    CHECK (state IN ('ready', 'delayed', 'picked', 'acked'))
)/* partitions */;

-- What a claim takes the first rows of, in the order of delivery.
CREATE INDEX messages_ready ON messages (queue, priority DESC, id) WHERE state = 'ready';
-- Whether there is an earlier message of a group, for the order within groups.
CREATE INDEX messages_group ON messages (queue, grp, id) WHERE grp <> 0 AND state <> 'acked';
-- What has become due: the sweeper's.
CREATE INDEX messages_due ON messages (visible_at) WHERE state IN ('delayed', 'picked');
-- What is old, for retention: only what is not acknowledged can be too old.
CREATE INDEX messages_age ON messages (created_at) WHERE state IN ('ready', 'delayed');
-- What was kept long enough: the collector's.
CREATE INDEX messages_acked ON messages (acked_at) WHERE state = 'acked';

-- Messages that were delivered too often, or that nobody has taken in time.
CREATE TABLE dead_letters (
    id         bigint      PRIMARY KEY,
    queue      text        NOT NULL,
    op_id      bigint      NOT NULL,
    idx        int         NOT NULL,
    grp        bigint      NOT NULL,
    priority   int         NOT NULL,
    receives   int         NOT NULL,
    redrives   int         NOT NULL,
    created_at timestamptz NOT NULL,
    died_at    timestamptz NOT NULL,
    reason     text        NOT NULL,
    body       text        NOT NULL
);
-- Which of them to put back into a queue.
CREATE INDEX dead_letters_queue ON dead_letters (queue, id);
