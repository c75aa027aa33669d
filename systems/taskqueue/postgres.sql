-- The tenants that have ever enqueued, in whose order workers go round, and until when their claims
-- have used up their rates, in microseconds.
CREATE TABLE tenants (tenant text PRIMARY KEY, spent_until bigint NOT NULL DEFAULT 0)
  WITH (fillfactor = 50);

CREATE TABLE jobs (
  id bigint PRIMARY KEY,
  tenant text NOT NULL,
  priority smallint NOT NULL,
  unique_key text NOT NULL,
  state text NOT NULL,
  attempts bigint NOT NULL DEFAULT 0,
  replays bigint NOT NULL DEFAULT 0,
  reason text NOT NULL DEFAULT '',
  ended_by bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  due_at timestamptz NOT NULL,
  lease_until timestamptz,
  ended_at timestamptz,
  payload jsonb NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What a claim reads: of each tenant the first rows, and no others. A job that is claimed leaves
-- the index, and a claim that passes its dead entry marks that, so that the next one skips it.
CREATE INDEX jobs_ready ON jobs (tenant, priority, id) WHERE state = 'ready';

-- What upkeep looks for. Jobs whose time has not come are in no claim's way. jobs_leases names no
-- state: with one, the planner took it to end a batch, and read every running job for each of them.
CREATE INDEX jobs_waiting ON jobs (due_at) WHERE state = 'waiting';
CREATE INDEX jobs_leases ON jobs (lease_until) WHERE lease_until IS NOT NULL;

CREATE UNIQUE INDEX jobs_unique ON jobs (unique_key)
  WHERE unique_key <> '' AND state IN ('ready', 'waiting', 'running');
