-- What clients asked for.
CREATE TABLE seeds (
    op_id bigint PRIMARY KEY,
    url   text NOT NULL
);

-- The frontier's first level: an address is one process's until free_at, and rests until then.
CREATE TABLE addresses (
    ip       text        PRIMARY KEY,
    fence    bigint      NOT NULL DEFAULT 0,
    free_at  timestamptz NOT NULL DEFAULT '-infinity',
    due_at   timestamptz NOT NULL DEFAULT 'infinity', -- when a page of it may be fetched
    priority int         NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX addresses_due ON addresses (due_at) WHERE due_at < 'infinity';

CREATE TABLE hosts (
    host     text        PRIMARY KEY,
    ip       text        NOT NULL,
    pages    bigint      NOT NULL DEFAULT 0, -- that were heard of
    rules    jsonb,
    rules_at timestamptz,
    failures int         NOT NULL DEFAULT 0, -- one after the other
    not_before timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- The second level: the pages of an address.
CREATE TABLE pages (
    url      text        PRIMARY KEY,
    host     text        NOT NULL,
    ip       text        NOT NULL,
    state    text        NOT NULL DEFAULT 'waiting',
    priority int         NOT NULL,
    hops     int         NOT NULL,
    seq      bigint      GENERATED ALWAYS AS IDENTITY,
    due_at   timestamptz NOT NULL DEFAULT '-infinity',
    tries    int         NOT NULL DEFAULT 0, -- that failed, one after the other
    failed   bigint      NOT NULL DEFAULT 0,
    fetched  bigint      NOT NULL DEFAULT 0,
    status   int         NOT NULL DEFAULT 0,
    hash     text        NOT NULL DEFAULT '',
    every_ms bigint      NOT NULL DEFAULT 0
);
CREATE INDEX pages_waiting ON pages (ip, priority, seq) WHERE state = 'waiting';

-- Bodies by their content: pages with the same text share one.
CREATE TABLE bodies (
    hash text  PRIMARY KEY,
    body bytea NOT NULL
);
