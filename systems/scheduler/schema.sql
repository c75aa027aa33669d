-- The tables of the scheduler: Postgres, READ COMMITTED. Every time is the
-- database's own clock, taken while the task's row is locked, so the times of one
-- task are in the order of what happened to it.

-- The moment at which the day began, that is, at which the first request came.
CREATE TABLE calendar (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    begins_at timestamptz NOT NULL
);

-- One row for each task. Of a recurring one it is the current occurrence, which
-- its end turns into the next (reset), or there is a row for each occurrence
-- (insert).
CREATE TABLE tasks (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Who scheduled it: the operation, which is also the task's name and its
    -- idempotency key, its 64 bits as signed.
    series     bigint  NOT NULL,
    occurrence bigint  NOT NULL DEFAULT 1,
    origin     boolean NOT NULL DEFAULT true, -- false: inserted as the next occurrence
    queue      text    NOT NULL,
    client     text    NOT NULL,
    task       text    NOT NULL,
    work_ms    bigint  NOT NULL,
    fails      boolean NOT NULL, -- until somebody runs it again
    schedule   text    NOT NULL, -- a cron expression; empty if it runs once
    zone       text    NOT NULL,
    times      bigint  NOT NULL, -- occurrences; 0 is without end
    first_at   timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),

    scheduled_at timestamptz NOT NULL,
    -- Since when nothing but the time and the scheduler stand in its way.
    ready_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    picked_at    timestamptz,
    started_at   timestamptz,
    ended_at     timestamptz,
    state   text    NOT NULL DEFAULT 'waiting' CHECK (state IN
            ('waiting', 'picked', 'running', 'done', 'failed', 'cancelled')),
    paused  boolean NOT NULL DEFAULT false,
    stops   boolean NOT NULL DEFAULT false, -- cancelled while it ran
    reruns  bigint  NOT NULL DEFAULT 0,
    -- The fencing token: one higher for each start, also over occurrences.
    fence       bigint NOT NULL DEFAULT 0,
    attempts    bigint NOT NULL DEFAULT 0, -- starts of this occurrence
    lease_until timestamptz,
    executor    text,
    part        smallint NOT NULL GENERATED ALWAYS AS (((series >> 8) & 15)::smallint) STORED
) WITH (fillfactor = 70);
-- A request that comes twice makes one task.
CREATE UNIQUE INDEX tasks_series ON tasks (series) WHERE origin;
CREATE UNIQUE INDEX tasks_occurrence ON tasks (series, occurrence);
-- Pickers: what is due next and nobody has.
CREATE INDEX tasks_waiting ON tasks (scheduled_at) WHERE state = 'waiting' AND NOT paused;
-- Executors: what was picked and is due.
CREATE INDEX tasks_picked ON tasks (scheduled_at) WHERE state = 'picked' AND NOT paused;
-- The rescuer: leases in the order in which they end.
CREATE INDEX tasks_leases ON tasks (lease_until) WHERE state = 'running';
-- Retention.
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- The history: one row for each start of an occurrence.
CREATE TABLE runs (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    series     bigint NOT NULL,
    occurrence bigint NOT NULL,
    fence      bigint NOT NULL,
    queue      text   NOT NULL,
    due        timestamptz NOT NULL,
    picked_at  timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    -- When the lease ended of a run that was rescued.
    lease_until timestamptz,
    -- Empty while it runs; done, failed or cancelled; lost if it was rescued;
    -- fenced if it ended after somebody else had taken over.
    outcome    text   NOT NULL DEFAULT '',
    executor   text   NOT NULL
) WITH (fillfactor = 70);
-- A task's history, also for whoever waits for a start.
CREATE INDEX runs_series ON runs (series, occurrence);

-- What tasks did to the world. The key is what an outside service would be given
-- to know a repetition by.
CREATE TABLE effects (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    effect_key text UNIQUE,
    series     bigint NOT NULL,
    occurrence bigint NOT NULL,
    fence      bigint NOT NULL,
    at         timestamptz NOT NULL
);
CREATE INDEX effects_series ON effects (series, occurrence); -- retention

-- What users did to tasks, once for each operation.
CREATE TABLE changes (
    op_id   bigint PRIMARY KEY,
    series  bigint NOT NULL,
    what    text   NOT NULL CHECK (what IN ('cancel', 'pause', 'resume', 'rerun')),
    outcome text   NOT NULL,
    at      timestamptz NOT NULL
);
CREATE INDEX changes_series ON changes (series); -- retention

-- How many executors the orchestrator wanted, and since when.
CREATE TABLE fleet (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    executors bigint NOT NULL,
    reason    text   NOT NULL,
    at        timestamptz NOT NULL
);
