package sqlbroker

import "stampede/harness/sut"

// claimWithoutMarking: a claim locks its messages and lets go of them at once. Wrong.
//
// Idea: SKIP LOCKED keeps others from rows that are locked, so it seems enough to lock
// them.
//
// Guarantee: two claims at the very same moment get different messages.
//
// Gives up: everything after that moment. The locks end with the statement, nothing in
// the rows says that they were delivered, and the next claim gets them again.
func claimWithoutMarking() variant {
	return inTable(variant{
		Name: "claim_without_marking",
		Idea: "a claim selects with SKIP LOCKED and marks nothing: " +
			"the locks end with the statement",
		Guarantees: "two claims at the very same moment get different messages",
		GivesUp:    "exclusive delivery: the next claim gets the same messages again",
		Breaks:     breaksUnder(sut.Load, VisibilityKept, EffectsOnce),
		Model: modelled(func(m *model) {
			m.mark, m.unfenced, m.counts = m.delivered, true, 1
			m.works = (*modelServer).effectThenAck
		}),
	}, func(t *table) messages {
		t.sql = unfencedStatements() // there is no receipt to go by
		t.sql.claim, t.sql.release = unmarkedSQL, unmarkedReleaseSQL
		return unfenced{t}
	})
}

const unmarkedSQL = `
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

// unmarkedReleaseSQL counts what comes back. Deliveries are not counted where they are not
// marked.
const unmarkedReleaseSQL = asked + `
UPDATE messages m
SET state = CASE WHEN m.receives + 1 < q.max_receives THEN 'ready' ELSE 'picked' END,
    receives = m.receives + 1, visible_at = clock_timestamp()
FROM asked a, queues q WHERE q.queue = $4 AND ` + identified + `
RETURNING a.n, true, 0::bigint`
