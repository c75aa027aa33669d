-- Nanoseconds of the store's clock.
CREATE FUNCTION ns(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
  AS 'SELECT (extract(epoch FROM at) * 1000000)::bigint * 1000';

-- The handler's: what it was called with, by whatever design.
CREATE TABLE runs (
  job bigint NOT NULL,
  tenant text NOT NULL,
  attempt bigint NOT NULL,
  batch text NOT NULL,
  size bigint NOT NULL,
  result text NOT NULL DEFAULT '',
  asked_ns bigint NOT NULL,
  claimed_ns bigint NOT NULL,
  failed_ns bigint NOT NULL DEFAULT 0,
  next_ns bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (job, attempt, size, batch)
) WITH (fillfactor = 80);

-- What the handler does. The salt is 0 for a handler that is idempotent.
CREATE TABLE effects (
  job bigint NOT NULL,
  salt bigint NOT NULL,
  attempt bigint NOT NULL,
  PRIMARY KEY (job, salt)
);

-- The log of the dependency that some jobs call.
CREATE TABLE calls (
  seq bigserial PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  attempt bigint NOT NULL -- of the job that it was for
);
