-- River's jobs as messages and dead letters, a part for each state: one that nobody asks for
-- costs nothing, and River's indexes begin with the state.

CREATE VIEW messages AS
WITH jobs AS NOT MATERIALIZED (
    SELECT id, queue, (args->>'op')::bigint AS op_id, (args->>'index')::int AS idx,
        (args->>'group')::bigint AS grp, attempt AS receives,
        coalesce(metadata->>'redrives', '0')::int AS redrives, finalized_at AS acked_at, created_at,
        attempted_at AS picked_at, scheduled_at AS visible_at, state AS job
    FROM river_job
)
SELECT *, 'ready' AS state FROM jobs WHERE job = 'available'
UNION ALL SELECT *, 'picked' FROM jobs WHERE job = 'running'
UNION ALL SELECT *, 'acked' FROM jobs WHERE job = 'completed' AND acked_at IS NOT NULL
UNION ALL SELECT *, 'delayed' FROM jobs WHERE job IN ('scheduled', 'retryable', 'pending');

-- A job is discarded after its last attempt, and cancelled for its age.
CREATE VIEW dead_letters AS
SELECT id, queue, (args->>'op')::bigint AS op_id, (args->>'index')::int AS idx,
    attempt AS receives, coalesce(metadata->>'redrives', '0')::int AS redrives,
    created_at, finalized_at AS died_at,
    CASE state WHEN 'discarded' THEN 'receives' ELSE 'retention' END AS reason
FROM river_job WHERE state IN ('discarded', 'cancelled');
