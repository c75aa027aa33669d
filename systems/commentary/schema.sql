-- A match's last version. Its row is locked by each change, so that versions are in the order of
-- commits.
CREATE TABLE matches (
    id      bigint PRIMARY KEY,
    version bigint NOT NULL
) WITH (fillfactor = 50); -- updated by each change, never indexed by what changes

-- The comments that are not archived yet, as they are now. A comment's id is the version with which
-- it came.
CREATE TABLE comments (
    match_id bigint      NOT NULL,
    id       bigint      NOT NULL,
    version  bigint      NOT NULL, -- of its last change
    ball     text        NOT NULL,
    said     text        NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (match_id, id) -- a match's newest ones, backwards
);
CREATE INDEX comments_at ON comments (at); -- the archiver takes the oldest

-- Every change. Who asks again for one is told its version.
CREATE TABLE changes (
    op       bigint PRIMARY KEY,
    match_id bigint NOT NULL,
    version  bigint NOT NULL,
    comment  bigint NOT NULL,
    ball     text   NOT NULL,
    said     text   NOT NULL
);

-- Objects of the archive, by name.
CREATE TABLE objects (
    name text PRIMARY KEY,
    body bytea NOT NULL
);
