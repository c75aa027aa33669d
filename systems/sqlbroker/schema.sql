-- Queues as tables: Postgres, READ COMMITTED. All deadlines are by its own clock.

-- One row for each queue, read by every claim for its settings.
CREATE TABLE queues (
    queue        text   PRIMARY KEY,
    visibility   bigint NOT NULL, -- microseconds, as the other times here
    max_receives int    NOT NULL,
    retention    bigint NOT NULL,
    rate_per_s   int    NOT NULL,
    token        bytea, -- the SHA-256 of what requests must show; none: nothing
    retention_at timestamptz NOT NULL DEFAULT clock_timestamp() -- since when it is that
);

-- One row for each publication: what is published again with the same identity is
-- not stored again, whatever has become of its messages, and what is another one with
-- that identity is refused.
CREATE TABLE published (
    op_id        bigint      PRIMARY KEY,
    queue        text        NOT NULL,
    messages     int         NOT NULL,
    digest       bigint      NOT NULL, -- of what they say
    published_at timestamptz NOT NULL
);
-- What is old enough to be forgotten: the collector's.
CREATE INDEX published_age ON published (published_at);

-- What the processes of the role consumer have claimed and worked off in all, for
-- gauges: a row for each of them since it began. Written five times a second.
CREATE TABLE consumers (
    consumer bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    consumed bigint NOT NULL DEFAULT 0,
    claims   bigint NOT NULL DEFAULT 0,
    claiming bigint NOT NULL DEFAULT 0 -- microseconds
);

-- What consumers have done: one row for each message that they have worked off, and
-- a second one if somebody has worked it off again, which nothing here prevents.
-- Written only; read at the end.
CREATE TABLE effects (
    seq         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    queue       text        NOT NULL,
    op_id       bigint      NOT NULL,
    idx         int         NOT NULL,
    grp         bigint      NOT NULL,
    receives    int         NOT NULL,
    received_at timestamptz NOT NULL,
    visible_at  timestamptz NOT NULL,
    stored_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    body        text        NOT NULL,
    consumer    text        NOT NULL,
    -- What no consumer can work off.
    CONSTRAINT digestible CHECK (body NOT LIKE 'poison%')
);
