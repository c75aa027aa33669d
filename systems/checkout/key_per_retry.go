package checkout

import "stampede/harness/sut"

// keyPerRetry lets each request have a key of its own. It is wrong.
//
// The idea: the client mints the idempotency key when it sends a request, and a new one when it
// sends it again. Nothing else says that two requests are one attempt.
//
// The guarantee: no more orders than units.
//
// It gives up: correctness. A request that is sent again, because its answer was lost or a finger
// was nervous, is a second order, and is paid for a second time.
func keyPerRetry() variant {
	v := rowLock()
	v.Name = "key_per_retry"
	v.Idea = "row_lock whose clients mint a new idempotency key for each retry"
	v.Guarantees = "no more orders than units"
	v.GivesUp = "correctness: a request that is sent again is a second order"
	v.Model = nil // whose attempts are known by their requests
	v.Breaks = []sut.Break{{Invariant: OneOrder, Under: sut.Load},
		{Invariant: SameToken, Under: sut.Load}}
	// Nothing of a request is known again but its key.
	v.State.Schema = `ALTER TABLE attempts DROP CONSTRAINT attempts_pkey;
		CREATE INDEX attempts_op ON attempts (op_id);
		DROP INDEX attempts_user; DROP INDEX orders_user;`
	return v
}
