package sqlbroker

// claimWithoutMarking: a claim locks its messages and lets go of them at once. Wrong.
//
// Idea: SKIP LOCKED keeps others from rows that are locked, so it seems enough to lock
// them.
//
// Guarantee: two claims at the very same moment get different messages.
//
// Gives up: everything after that moment. The locks end with the statement, nothing in
// the rows says that they were delivered, and the next claim gets them again.
func claimWithoutMarking() design {
	d := batched()
	d.name = "claim_without_marking"
	d.idea = "a claim selects with SKIP LOCKED and marks nothing: the locks end with the statement"
	d.guarantees = "two claims at the very same moment get different messages"
	d.givesUp = "exclusive delivery: the next claim gets the same messages again"
	d.breaks = breaksUnder(load, VisibilityKept, EffectsOnce)
	d.sql = unfencedStatements() // there is no receipt to go by
	d.sql.claim = `
WITH first AS MATERIALIZED (
    SELECT m.slot, m.id FROM messages m
    WHERE m.queue = $1 AND m.state = 'ready' {slots} AND ` + headOfGroup + `
    ORDER BY m.priority DESC, m.id LIMIT $2
    FOR UPDATE SKIP LOCKED
)
SELECT m.slot, m.id, gen_random_uuid(), m.op_id, m.idx, m.body, m.grp, m.priority,
    m.receives + 1, (` + nanoseconds + `clock_timestamp()))::bigint,
    (` + nanoseconds + `clock_timestamp()) + 1000 * q.visibility)::bigint
FROM first JOIN messages m ON m.slot = first.slot AND m.id = first.id JOIN queues q USING (queue)`
	// Deliveries are not counted where they are not marked; what comes back is.
	d.sql.release = asked + `
UPDATE messages m
SET state = CASE WHEN m.receives + 1 < q.max_receives THEN 'ready' ELSE 'picked' END,
    receives = m.receives + 1, visible_at = clock_timestamp()
FROM asked a, queues q WHERE q.queue = $4 AND ` + identified + `
RETURNING a.n, true, 0::bigint`
	d.work = effectsUnfenced
	return d
}
