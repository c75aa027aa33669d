-- River's jobs as the messages and dead letters that an audit reads.

CREATE VIEW messages AS
SELECT id, queue, (args->>'op')::bigint AS op_id, (args->>'index')::int AS idx,
    (args->>'group')::bigint AS grp,
    CASE state
        WHEN 'available' THEN 'ready' WHEN 'running' THEN 'picked' WHEN 'completed' THEN 'acked'
        ELSE 'delayed'
    END AS state,
    attempt AS receives, coalesce(metadata->>'redrives', '0')::int AS redrives,
    finalized_at AS acked_at, created_at, scheduled_at AS visible_at
FROM river_job WHERE state NOT IN ('discarded', 'cancelled');

-- A job is discarded after its last attempt, and cancelled for its age.
CREATE VIEW dead_letters AS
SELECT id, queue, (args->>'op')::bigint AS op_id, (args->>'index')::int AS idx,
    attempt AS receives, coalesce(metadata->>'redrives', '0')::int AS redrives,
    created_at, finalized_at AS died_at,
    CASE state WHEN 'discarded' THEN 'receives' ELSE 'retention' END AS reason
FROM river_job WHERE state IN ('discarded', 'cancelled');
