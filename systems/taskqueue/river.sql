-- A job of ours has one number, whoever sends it how often.
CREATE UNIQUE INDEX river_job_op ON river_job (((args->>'op_id')::bigint));

-- River's client writes the time of a clock of its own. A job begins by the store's clock, and
-- no fetch that began earlier takes it. A delayed job begins when its delay was counted from.
CREATE FUNCTION stamp_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state = 'scheduled' THEN
    NEW.created_at := NEW.scheduled_at - (NEW.args->>'delay_ms')::bigint * interval '1 millisecond';
  ELSE
    NEW.created_at := clock_timestamp();
    NEW.scheduled_at := NEW.created_at;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER job_stamped BEFORE INSERT ON river_job FOR EACH ROW EXECUTE FUNCTION stamp_job();

-- River's jobs as the other designs keep theirs.
CREATE VIEW jobs AS
SELECT (args->>'op_id')::bigint AS id, args->>'tenant' AS tenant, priority,
    args->>'unique_key' AS unique_key,
    CASE state WHEN 'available' THEN 'ready' WHEN 'running' THEN 'running' WHEN 'completed' THEN 'done'
        WHEN 'discarded' THEN 'dead' WHEN 'cancelled' THEN 'cancelled' ELSE 'waiting' END AS state,
    attempt::bigint AS attempts, coalesce(metadata->>'replays', '0')::bigint AS replays,
    CASE state WHEN 'discarded' THEN coalesce(metadata->>'reason', 'attempts') ELSE '' END AS reason,
    coalesce(metadata->>'ended_by', '0')::bigint AS ended_by,
    created_at, finalized_at AS ended_at
FROM river_job;
